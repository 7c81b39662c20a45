//! The system calls themselves: the only unsafe code in the workspace's data plane. Each function checks its arguments,
//! makes one call, and returns a plain result.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Instant;

/// Largest number of packets sent or received in one call.
pub(super) const BATCH: usize = 64;
/// Bytes kept of each received packet: the header. The kernel drops the rest and still reports the length.
pub(super) const KEPT_BYTES: usize = 64;
const CONTROL_BYTES: usize = 256;
const NAME_BYTES: usize = mem::size_of::<libc::sockaddr_in6>();

fn checked(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Sets a socket option to the given bytes.
pub(super) fn set_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: `value` is a live slice of the length passed; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    checked(result).map(|_| ())
}

/// Reads a socket option into `value`. Returns the number of bytes.
pub(super) fn get_option(fd: BorrowedFd<'_>, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the length of the live, exclusive slice.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length) };
    checked(result).map(|_| (length as usize).min(value.len()))
}

/// Returns the number of bytes in a TCP socket's send queue: those that the peer has not acknowledged.
pub(super) fn queued_bytes(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the kernel writes one int through the pointer, which is live and exclusive.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    checked(result)?;
    checked(count)
}

/// Waits until the socket is readable or `until` has passed. Returns whether it is readable.
pub(super) fn wait_readable(fd: BorrowedFd<'_>, until: Instant) -> io::Result<bool> {
    wait(fd, libc::POLLIN, until)
}

/// Waits until an error is queued or `until` has passed. Returns whether there is one.
pub(super) fn wait_error(fd: BorrowedFd<'_>, until: Instant) -> io::Result<bool> {
    // poll always waits for POLLERR.
    wait(fd, 0, until)
}

fn wait(fd: BorrowedFd<'_>, events: i16, until: Instant) -> io::Result<bool> {
    let left = until.saturating_duration_since(Instant::now());
    let timeout = libc::timespec {
        tv_sec: left.as_secs().min(3600) as libc::time_t,
        tv_nsec: (left.subsec_nanos() as i32).into(),
    };
    let mut entry = libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: one live pollfd, one live timespec, no signal mask.
    let result = unsafe { libc::ppoll(&raw mut entry, 1, &raw const timeout, ptr::null()) };
    match checked(result) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes one error from the socket's error queue, without waiting. `control` receives its control messages, `name` the
/// destination of the datagram that caused it. Returns the lengths of both; `None` if the queue is empty.
pub(super) fn receive_error(
    fd: BorrowedFd<'_>,
    control: &mut [u8],
    name: &mut [u8],
) -> io::Result<Option<(usize, usize)>> {
    let mut payload = [0u8; KEPT_BYTES];
    let mut piece = libc::iovec {
        iov_base: payload.as_mut_ptr().cast(),
        iov_len: payload.len(),
    };
    // SAFETY: all-zero is a valid msghdr: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = name.len() as libc::socklen_t;
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = control.len() as _;
    // SAFETY: the message points at live, exclusively borrowed buffers with their true lengths.
    let result = unsafe {
        libc::recvmsg(
            fd.as_raw_fd(),
            &raw mut message,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    match usize::try_from(result) {
        Ok(_) => Ok(Some((
            message.msg_controllen.min(control.len()),
            (message.msg_namelen as usize).min(name.len()),
        ))),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        },
    }
}

/// Sends `buffer` on a connected datagram socket as packets of `packet_bytes` each, as many as fit in one call. Returns
/// the number of packets sent.
pub(super) fn send_many(fd: BorrowedFd<'_>, buffer: &[u8], packet_bytes: usize) -> io::Result<usize> {
    let mut pieces: Vec<libc::iovec> = buffer
        .chunks_exact(packet_bytes)
        .take(BATCH)
        .map(|packet| libc::iovec {
            iov_base: packet.as_ptr().cast_mut().cast(),
            iov_len: packet.len(),
        })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = pieces
        .iter_mut()
        .map(|piece| {
            // SAFETY: all-zero is a valid mmsghdr: null pointers with zero lengths.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_iov = ptr::from_mut(piece);
            message.msg_hdr.msg_iovlen = 1;
            message
        })
        .collect();
    // SAFETY: every message points at one live iovec, which points into the live `buffer`; sending reads only.
    let result = unsafe { libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), messages.len() as libc::c_uint, 0) };
    checked(result)
}

/// Buffers for one batch of received packets.
pub(super) struct Batch {
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Slot {
    control: [u8; CONTROL_BYTES],
    packet: [u8; KEPT_BYTES],
    name: [u8; NAME_BYTES],
    control_length: usize,
    packet_length: usize,
    name_length: usize,
}

/// One packet of a batch.
pub(super) struct Received<'a> {
    /// The packet's first bytes, at most [`KEPT_BYTES`].
    pub(super) kept: &'a [u8],
    /// The packet's full length.
    pub(super) length: usize,
    /// The sender's socket address as the kernel wrote it.
    pub(super) name: &'a [u8],
    /// The control messages.
    pub(super) control: &'a [u8],
}

impl Batch {
    pub(super) fn new() -> Self {
        let slot = Slot {
            control: [0; CONTROL_BYTES],
            packet: [0; KEPT_BYTES],
            name: [0; NAME_BYTES],
            control_length: 0,
            packet_length: 0,
            name_length: 0,
        };
        Self {
            slots: vec![slot; BATCH].into_boxed_slice(),
        }
    }

    /// Receives the packets that are queued on the socket, without waiting. Returns their number.
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let mut pieces: Vec<libc::iovec> = self
            .slots
            .iter_mut()
            .map(|slot| libc::iovec {
                iov_base: slot.packet.as_mut_ptr().cast(),
                iov_len: KEPT_BYTES,
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = self
            .slots
            .iter_mut()
            .zip(&mut pieces)
            .map(|(slot, piece)| {
                // SAFETY: all-zero is a valid mmsghdr: null pointers with zero lengths.
                let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
                let header = &mut message.msg_hdr;
                header.msg_name = slot.name.as_mut_ptr().cast();
                header.msg_namelen = NAME_BYTES as libc::socklen_t;
                header.msg_iov = ptr::from_mut(piece);
                header.msg_iovlen = 1;
                header.msg_control = slot.control.as_mut_ptr().cast();
                header.msg_controllen = CONTROL_BYTES as _;
                message
            })
            .collect();
        // MSG_TRUNC makes the kernel report the full length of a packet that was cut to the slot.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: each message points at buffers of `self.slots` and `pieces` with their true lengths; all of them
        // live and are borrowed exclusively until the call returns.
        let result = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                flags as _,
                ptr::null_mut(),
            )
        };
        let count = match checked(result) {
            Ok(count) => count.min(BATCH),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        for (slot, message) in self.slots.iter_mut().zip(&messages).take(count) {
            slot.packet_length = message.msg_len as usize;
            slot.name_length = (message.msg_hdr.msg_namelen as usize).min(NAME_BYTES);
            slot.control_length = message.msg_hdr.msg_controllen.min(CONTROL_BYTES);
        }
        Ok(count)
    }

    /// The first `count` packets of the last [`Batch::receive`].
    pub(super) fn packets(&self, count: usize) -> impl Iterator<Item = Received<'_>> {
        self.slots.iter().take(count).map(|slot| Received {
            kept: &slot.packet[..slot.packet_length.min(KEPT_BYTES)],
            length: slot.packet_length,
            name: &slot.name[..slot.name_length],
            control: &slot.control[..slot.control_length],
        })
    }
}

/// Reads up to `most` bytes from a TCP connection and drops them in the kernel. 0 means that the other side has closed.
pub(super) fn discard(fd: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer (tcp(7)), so the null pointer is never used.
    let result = unsafe {
        libc::recv(
            fd.as_raw_fd(),
            ptr::null_mut(),
            most,
            libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
