//! Netlink: messages as bytes, sent in chunks, with one acknowledgement per chunk. There is no unsafe code: the socket
//! is nix's.
//!
//! The kernel reports every message that fails, whether requested or not. One acknowledgement per chunk is therefore
//! enough. More than about a hundred messages would overflow the socket's buffer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, getsockname, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;

use crate::bpf::{self, FilterStep};

/// Number of messages sent at once.
const CHUNK: usize = 64;
/// How long an answer may take: the kernel's own lock is contended while namespaces are created and removed.
const ANSWER_LIMIT_S: i64 = 5;
/// Buffer for about 20,000 sockets that end between two reads.
const HEARING_BYTES: usize = 8 << 20;
/// Buffer for announcements of changes to queues. When it is full, the loss itself is the announcement.
const CHANGES_BYTES: usize = 256 << 10;
const HEADER: usize = 16;
const RECEIVE_BYTES: usize = 64 * 1024;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
/// Replace an existing object.
pub const NLM_F_REPLACE: u16 = 0x100;
/// Fail if the object exists.
pub const NLM_F_EXCL: u16 = 0x200;
/// Create the object if it does not exist.
pub const NLM_F_CREATE: u16 = 0x400;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// A request under construction: a header that is filled in when it is sent, a fixed part, and attributes.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Creates a request of this kind with its fixed part.
    #[must_use]
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Self { bytes }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn put(mut self, kind: u16, value: &[u8]) -> Self {
        self.bytes.extend_from_slice(&((value.len() + 4) as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Adds a number as an attribute.
    #[must_use]
    pub fn put_u32(self, kind: u16, value: u32) -> Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds a text that ends with a zero byte.
    #[must_use]
    pub fn put_text(self, kind: u16, value: &str) -> Self {
        self.put(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute that contains other attributes.
    #[must_use]
    pub fn nest(mut self, kind: u16, inside: impl FnOnce(Self) -> Self) -> Self {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        let mut message = inside(self);
        let length = (message.bytes.len() - at) as u16;
        message.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        message
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(&mut self, sequence: u32, more_flags: u16) {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        let flags = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) | more_flags;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    }
}

/// A socket to a part of the kernel, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket to the routing part: links, addresses, queues.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open() -> io::Result<Self> {
        Self::to(SockProtocol::NetlinkRoute)
    }

    /// Opens a socket to the part that reports sockets.
    ///
    /// # Errors
    /// The same as for [`Self::open`].
    pub fn sockets() -> io::Result<Self> {
        Self::to(SockProtocol::NetlinkSockDiag)
    }

    fn to(part: SockProtocol) -> io::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, part)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(ANSWER_LIMIT_S, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The kernel's number for this socket, which announcements of its changes carry.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn port(&self) -> io::Result<u32> {
        Ok(getsockname::<NetlinkAddr>(self.socket.as_raw_fd())?.pid())
    }

    /// Sends messages in order, in chunks, and waits until the kernel has processed them.
    ///
    /// # Errors
    /// The first refusal. Later messages of the same chunk were processed nevertheless.
    pub fn all(&mut self, messages: Vec<Message>) -> io::Result<()> {
        let mut messages = messages.into_iter().peekable();
        let mut refused = None;
        while messages.peek().is_some() {
            let mut chunk = Vec::new();
            let mut left = CHUNK;
            while let Some(mut message) = messages.next() {
                left -= 1;
                self.sequence = self.sequence.wrapping_add(1);
                let last = left == 0 || messages.peek().is_none();
                message.finish(self.sequence, if last { NLM_F_ACK } else { 0 });
                chunk.extend_from_slice(&message.bytes);
                if last {
                    break;
                }
            }
            send(self.socket.as_raw_fd(), &chunk, MsgFlags::empty())?;
            if let Err(error) = self.acknowledged() {
                refused.get_or_insert(error);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Sends one message and waits until the kernel has processed it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn one(&mut self, message: Message) -> io::Result<()> {
        self.all(vec![message])
    }

    /// Reads answers up to the one for the last message sent.
    fn acknowledged(&mut self) -> io::Result<()> {
        let mut refused = None;
        loop {
            let buffer = self.receive()?;
            for (kind, sequence, body) in messages(&buffer) {
                if kind != NLMSG_ERROR {
                    continue;
                }
                match code(body) {
                    0 => {}
                    code => {
                        refused.get_or_insert(io::Error::from_raw_os_error(-code));
                    }
                }
                if sequence == self.sequence {
                    return refused.map_or(Ok(()), Err);
                }
            }
        }
    }

    /// Sends one question and passes the body of the answer to `each`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn ask(&mut self, mut message: Message, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        message.finish(self.sequence, 0);
        send(self.socket.as_raw_fd(), &message.bytes, MsgFlags::empty())?;
        loop {
            let buffer = self.receive()?;
            for (kind, sequence, body) in messages(&buffer) {
                match kind {
                    _ if sequence != self.sequence => {}
                    NLMSG_ERROR => return Err(io::Error::from_raw_os_error(-code(body))),
                    _ => {
                        each(body);
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Requests all objects of a kind and passes the body of every answer to `each`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn dump(&mut self, mut message: Message, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        message.finish(self.sequence, NLM_F_DUMP);
        send(self.socket.as_raw_fd(), &message.bytes, MsgFlags::empty())?;
        loop {
            let buffer = self.receive()?;
            for (kind, sequence, body) in messages(&buffer) {
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return Err(io::Error::from_raw_os_error(-code(body))),
                    _ => each(body),
                }
            }
        }
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; RECEIVE_BYTES];
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => {
                    buffer.truncate(length);
                    return Ok(buffer);
                }
                Err(nix::errno::Errno::EINTR) => {}
                Err(nix::errno::Errno::EAGAIN) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer"));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Receives the kernel's announcements, for example of sockets that end.
#[derive(Debug)]
pub struct Hearing(OwnedFd);

impl Hearing {
    /// Subscribes to announcements of sockets, one group per bit.
    ///
    /// # Errors
    /// The kernel's error: without `CAP_NET_ADMIN`, that it is not permitted.
    pub fn sockets(groups: u32) -> io::Result<Self> {
        Self::to(SockProtocol::NetlinkSockDiag, groups, HEARING_BYTES, None)
    }

    /// Subscribes to announcements of links, addresses and queues, one group per bit. Changes that another socket of
    /// this process requested are left out: the one with this port.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn routes(groups: u32, except_port: u32) -> io::Result<Self> {
        Self::to(SockProtocol::NetlinkRoute, groups, CHANGES_BYTES, Some(except_port))
    }

    fn to(part: SockProtocol, groups: u32, buffer_bytes: usize, except_port: Option<u32>) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, part)?;
        setsockopt(&socket, sockopt::RcvBuf, &buffer_bytes)?;
        if let Some(port) = except_port {
            bpf::filter(&socket, &without_port(port))?;
        }
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Self(socket))
    }

    /// The descriptor on which to wait for announcements.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Passes the bodies of all announcements since the last call to `each`. Returns whether any were lost.
    pub fn heard(&self, mut each: impl FnMut(&[u8])) -> bool {
        let mut buffer = vec![0; RECEIVE_BYTES];
        let mut lost = false;
        loop {
            match recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => messages(&buffer[..length]).for_each(|(_, _, body)| each(body)),
                Err(nix::errno::Errno::EINTR) => {}
                Err(nix::errno::Errno::ENOBUFS) => lost = true,
                Err(_) => return lost,
            }
        }
    }
}

/// A filter that rejects announcements of changes that the socket with this port requested.
fn without_port(port: u32) -> [FilterStep; 4] {
    const LOAD_WORD_AT: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const PORT_AT: u32 = 12;
    // Filters read numbers in network order.
    let port = u32::from_be_bytes(port.to_ne_bytes());
    [
        (LOAD_WORD_AT, 0, 0, PORT_AT),
        (JUMP_IF_EQUAL, 0, 1, port),
        (RETURN, 0, 0, 0),
        (RETURN, 0, 0, u32::MAX),
    ]
}

/// The error number of an `nlmsgerr`, negative as in the kernel; 0 for an acknowledgement.
fn code(body: &[u8]) -> i32 {
    body.get(..4)
        .map_or(-libc::EPROTO, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

/// Kind, sequence number and body of each message, up to the first invalid one.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let kind = u16_at(bytes, 4)?;
        let sequence = u32_at(bytes, 8)?;
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, sequence, body))
    })
}

/// Kind and value of each attribute, up to the first invalid one.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)?;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        // The upper two bits are flags: the value contains attributes, or is in network byte order.
        Some((kind & 0x3fff, value))
    })
}

/// The value of the first attribute of a kind.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(found, _)| *found == kind)
        .map(|(_, value)| value)
}

/// Two bytes in host byte order.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Four bytes in host byte order.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Eight bytes in host byte order.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A text, up to its first zero byte.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_read_as_they_are_written() {
        let message = Message::new(1, 0, &[9; 4])
            .put_text(3, "bpf")
            .nest(2, |inside| inside.put_u32(7, 5).put(8, &[1; 8]));
        let body = &message.bytes[HEADER + 4..];
        assert_eq!(attribute(body, 3).map(text).as_deref(), Some("bpf"));
        let inside = attribute(body, 2).unwrap();
        assert_eq!(u32_at(attribute(inside, 7).unwrap(), 0), Some(5));
        assert_eq!(
            u64_at(attribute(inside, 8).unwrap(), 0),
            Some(u64::from_ne_bytes([1; 8]))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            assert!(messages(&bytes).count() <= bytes.len());
            assert!(attributes(&bytes).count() <= bytes.len());
        }
    }
}
