//! Traceroute without privileges: UDP probes with increasing time to live. The kernel keeps the ICMP answers in the
//! socket's error queue (`IP_RECVERR`, ip(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::SocketError;
use super::control::messages;
use super::raw;

/// First destination port of probes, as in traceroute(8); normally no process listens on it.
const FIRST_PORT: u16 = 33_434;

/// An answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The host or router that answered.
    pub address: IpAddr,
    /// Whether the probe ended there: at its target, or at a router that did not forward it.
    pub last: bool,
}

/// The sending socket of probes.
#[derive(Debug)]
pub struct Prober {
    socket: UdpSocket,
    peer: SocketAddr,
    probes: u16,
}

impl Prober {
    /// Opens a socket for probes to the host of `peer`, from the address `local` if one is given.
    ///
    /// # Errors
    /// If the socket cannot be set up.
    pub fn open(local: Option<IpAddr>, peer: SocketAddr) -> Result<Self, SocketError> {
        let any: IpAddr = if peer.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let socket = UdpSocket::bind((local.unwrap_or(any), 0)).map_err(SocketError::system("bind UDP"))?;
        let (level, name) = if peer.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_RECVERR)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        };
        raw::set_option(socket.as_fd(), level, name, &1i32.to_ne_bytes())
            .map_err(SocketError::system("ask for ICMP answers"))?;
        Ok(Self {
            socket,
            peer,
            probes: 0,
        })
    }

    /// Sends one probe that lives for `hops` hops and waits up to `wait` for its answer. Returns the answer and its
    /// delay.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn probe(&mut self, hops: u8, wait: Duration) -> Result<Option<(Answer, Duration)>, SocketError> {
        let (level, name) = if self.peer.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_TTL)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS)
        };
        raw::set_option(self.socket.as_fd(), level, name, &i32::from(hops).to_ne_bytes())
            .map_err(SocketError::system("set the time to live"))?;
        // The port identifies the probe that an answer belongs to.
        let port = FIRST_PORT + self.probes % 1024;
        self.probes = self.probes.wrapping_add(1);
        let start = Instant::now();
        // The address keeps its zone.
        let mut target = self.peer;
        target.set_port(port);
        match self.socket.send_to(&[0; 32], target) {
            // A queued error is reported once by the next call, whichever call that is.
            Err(error) if self.socket.take_error().is_err() => return Err(SocketError::system("send a probe")(error)),
            _ => {}
        }
        loop {
            raw::wait_error(self.socket.as_fd(), start + wait).map_err(SocketError::system("wait for ICMP"))?;
            let took = start.elapsed();
            let (mut control, mut destination) = ([0; 512], [0; 28]);
            let read = raw::receive_error(self.socket.as_fd(), &mut control, &mut destination)
                .map_err(SocketError::system("read an ICMP answer"))?;
            match read {
                Some((length, _)) if destination_port(&destination) == port => {
                    if let Some(answer) = parse(control.get(..length).unwrap_or_default(), self.peer.ip()) {
                        return Ok(Some((answer, took)));
                    }
                }
                _ if took >= wait => return Ok(None),
                _ => {}
            }
        }
    }
}

fn destination_port(name: &[u8; 28]) -> u16 {
    u16::from_be_bytes([name[2], name[3]])
}

/// Reads the control messages of one error: `struct sock_extended_err`, then the sender's address. Accepts any bytes.
fn parse(control: &[u8], peer: IpAddr) -> Option<Answer> {
    const ICMP: u8 = 2;
    const ICMP6: u8 = 3;
    const EXTENDED: usize = 16;
    let (_, _, data) = messages(control).find(|(level, kind, _)| {
        matches!(
            (*level, *kind),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        )
    })?;
    let (origin, kind) = (*data.get(4)?, *data.get(5)?);
    let name = data.get(EXTENDED..)?;
    let (address, exceeded) = match origin {
        ICMP => {
            let octets: [u8; 4] = name.get(4..8)?.try_into().ok()?;
            (IpAddr::from(octets), kind == 11)
        }
        ICMP6 => {
            let octets: [u8; 16] = name.get(8..24)?.try_into().ok()?;
            (IpAddr::from(octets).to_canonical(), kind == 3)
        }
        _ => return None,
    };
    Some(Answer {
        address,
        last: address == peer || !exceeded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u8, from: [u8; 4]) -> Vec<u8> {
        let word = size_of::<usize>();
        let mut data = vec![0; 4];
        data.extend([2, kind, 0, 0]);
        data.extend([0; 8]);
        data.extend((libc::AF_INET as u16).to_ne_bytes());
        data.extend([0, 0]);
        data.extend(from);
        data.extend([0; 8]);
        let mut bytes = (word + 8 + data.len()).to_ne_bytes().to_vec();
        bytes.extend(libc::IPPROTO_IP.to_ne_bytes());
        bytes.extend(libc::IP_RECVERR.to_ne_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn routers_and_the_target_are_told_apart() {
        let peer = IpAddr::from([10, 0, 0, 9]);
        let router = parse(&message(11, [10, 0, 0, 1]), peer).unwrap();
        assert_eq!((router.address, router.last), (IpAddr::from([10, 0, 0, 1]), false));
        assert!(parse(&message(3, [10, 0, 0, 9]), peer).unwrap().last);
        assert!(parse(&message(3, [10, 0, 0, 4]), peer).unwrap().last);
    }

    #[test]
    fn loopback_is_one_hop_away() {
        let peer = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut prober = Prober::open(None, peer).unwrap();
        let (answer, _) = prober.probe(1, Duration::from_secs(5)).unwrap().unwrap();
        assert_eq!(
            answer,
            Answer {
                address: peer.ip(),
                last: true
            }
        );
    }

    #[test]
    fn silence_ends_after_the_wait() {
        // This socket listens on the probe's port and never answers.
        let peer = SocketAddr::from(([127, 0, 0, 77], 0));
        let _quiet = UdpSocket::bind((peer.ip(), FIRST_PORT)).unwrap();
        let mut prober = Prober::open(None, peer).unwrap();
        assert_eq!(prober.probe(1, Duration::from_millis(20)).unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..60) {
            let peer = IpAddr::from([10, 0, 0, 9]);
            let _ = parse(&bytes, peer);
            let whole = message(11, [10, 0, 0, 1]);
            prop_assert!(cut >= whole.len() || parse(&whole[..cut], peer).is_none());
        }
    }
}
