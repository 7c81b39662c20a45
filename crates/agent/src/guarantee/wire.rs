//! The UDP socket between agents; it also reports when each datagram arrived.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use gavotte_kernel::bpf::{FilterStep, filter};
use gavotte_shaper::{UNNUMBERED, UNSHAPED};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::guarantee::talk::{BYTES, MAGICS};

/// Largest number of datagrams received in one call.
const MOST: usize = 4096;

/// Buffer for the datagrams of several thousand hosts, or for what others send meanwhile.
const BUFFER_BYTES: usize = 4 << 20;

/// If the difference of two clocks changes by more than this between two readings, one of them was set.
const STEP_US: u32 = 2_000;

/// The socket of one host's keeper.
#[derive(Debug)]
pub(super) struct Wire {
    socket: UdpSocket,
    ahead: Ahead,
    /// Buffer for the kernel's timestamp.
    control: Vec<u8>,
}

impl Wire {
    /// Binds the socket.
    pub(super) fn open(place: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(place)?;
        socket.set_nonblocking(true)?;
        // Datagrams of this socket bypass all classes.
        match place.ip() {
            IpAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4Tos, &UNNUMBERED.into())?,
            IpAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6TClass, &UNNUMBERED.into())?,
        }
        setsockopt(&socket, sockopt::Priority, &(UNSHAPED as i32))?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        // Whatever is no datagram of agents ends in the kernel, and does not wake the agent.
        filter(&socket, &only_ours())?;
        // Beyond the system's limit, which only root may exceed.
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES)
            .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &BUFFER_BYTES))?;
        Ok(Self {
            socket,
            ahead: Ahead(ahead_us()),
            control: nix::cmsg_space!(TimeSpec),
        })
    }

    /// The descriptor on which to wait for datagrams.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives all waiting datagrams, each with its sender and its arrival time by the kernel's clock of timestamps.
    /// Returns how far that clock is ahead of [`now_us`]; `None` if it was set since the last call, since the arrival
    /// times of this call then mean nothing.
    pub(super) fn hear(&mut self, mut each: impl FnMut(SocketAddr, &[u8], Option<u32>)) -> Option<u32> {
        let mut bytes = [0; BYTES + 1];
        for _ in 0..MOST {
            let mut room = [IoSliceMut::new(&mut bytes)];
            let flags = MsgFlags::empty();
            let heard = recvmsg::<SockaddrStorage>(
                self.socket.as_raw_fd(),
                &mut room,
                Some(self.control.as_mut_slice()),
                flags,
            );
            let Ok(heard) = heard else {
                break;
            };
            let stamp = heard.cmsgs().ok().and_then(|mut all| {
                all.find_map(|one| match one {
                    ControlMessageOwned::ScmTimestampns(at) => Some(micros(at)),
                    _ => None,
                })
            });
            let (length, from) = (heard.bytes, heard.address.as_ref().and_then(source));
            if let Some(from) = from {
                each(from, &bytes[..length], stamp);
            }
        }
        self.ahead.next(ahead_us())
    }

    /// Sends a datagram. Returns whether the kernel accepted it.
    pub(super) fn tell(&self, to: SocketAddr, bytes: &[u8]) -> bool {
        self.socket.send_to(bytes, to).is_ok()
    }
}

/// A filter that passes datagrams whose first bytes are those of an agent's, and rejects all others.
fn only_ours() -> Vec<FilterStep> {
    const LOAD_WORD_AT: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const UDP_BYTES: u32 = 8;
    let mut steps = vec![(LOAD_WORD_AT, 0, 0, UDP_BYTES)];
    for (place, magic) in MAGICS.into_iter().enumerate() {
        // Past the other comparisons and the rejection.
        let passes = (MAGICS.len() - place) as u8;
        steps.push((JUMP_IF_EQUAL, passes, 0, u32::from_be_bytes(magic)));
    }
    steps.push((RETURN, 0, 0, 0));
    steps.push((RETURN, 0, 0, u32::MAX));
    steps
}

/// How far the clock of timestamps was ahead of [`now_us`] at the last reading.
#[derive(Debug)]
struct Ahead(u32);

impl Ahead {
    /// Takes a new reading. Returns it, unless a clock was set since the last one.
    fn next(&mut self, ahead_us: u32) -> Option<u32> {
        let change_us = ahead_us
            .wrapping_sub(std::mem::replace(&mut self.0, ahead_us))
            .cast_signed();
        (change_us.unsigned_abs() <= STEP_US).then_some(ahead_us)
    }
}

fn ahead_us() -> u32 {
    clock_us(ClockId::CLOCK_REALTIME).wrapping_sub(now_us())
}

/// Microseconds of a clock that is never set or slewed; wraps around.
pub(super) fn now_us() -> u32 {
    clock_us(ClockId::CLOCK_MONOTONIC_RAW)
}

fn clock_us(clock: ClockId) -> u32 {
    clock_gettime(clock).map_or(0, micros)
}

fn micros(at: TimeSpec) -> u32 {
    (at.tv_sec() as u32)
        .wrapping_mul(1_000_000)
        .wrapping_add(at.tv_nsec() as u32 / 1000)
}

fn source(address: &SockaddrStorage) -> Option<SocketAddr> {
    let four = address
        .as_sockaddr_in()
        .map(|four| SocketAddr::from((four.ip(), four.port())));
    four.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|six| SocketAddr::from((six.ip(), six.port())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_datagrams_of_agents_reach_the_socket() {
        let mut wire = Wire::open(([127, 0, 0, 1], 0).into()).unwrap();
        let other = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let place = wire.socket.local_addr().unwrap();
        for bytes in [b"junk".as_slice(), b"GV", b"", b"GVP4 of another version"] {
            other.send_to(bytes, place).unwrap();
        }
        for magic in MAGICS {
            other.send_to(&magic, place).unwrap();
        }
        let mut heard = Vec::new();
        wire.hear(|_, bytes, _| heard.push(bytes.to_vec()));
        assert_eq!(heard, MAGICS.map(|magic| magic.to_vec()));
    }

    #[test]
    fn times_do_not_count_while_the_clock_is_set() {
        for step_us in [10_000_000_u32, 0_u32.wrapping_sub(10_000_000)] {
            let mut ahead = Ahead(u32::MAX - 500);
            // NTP slews the clock a little, across the wrap of the count.
            assert_eq!(ahead.next(200), Some(200));
            assert_eq!(ahead.next(step_us), None);
            assert_eq!(ahead.next(step_us), Some(step_us));
        }
    }
}
