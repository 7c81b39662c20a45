//! Netlink: messages as bytes, sent in chunks, acknowledged by the last of each. No unsafe code: the socket is nix's.
//!
//! The kernel answers every message that fails, asked or not, so one acknowledgement a chunk tells of all of them; more
//! than about a hundred would overflow the socket's buffer.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;

/// Messages sent at once.
const CHUNK: usize = 64;
/// How long an answer may take: the kernel's own lock is contended when namespaces come and go.
const ANSWER_LIMIT_S: i64 = 5;
/// Some 20,000 sockets that end between two looks.
const HEARING_BYTES: usize = 8 << 20;
const HEADER: usize = 16;
const RECEIVE_BYTES: usize = 64 * 1024;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
/// Replace what is there.
pub const NLM_F_REPLACE: u16 = 0x100;
/// Fail where something is there.
pub const NLM_F_EXCL: u16 = 0x200;
/// Make what is not there.
pub const NLM_F_CREATE: u16 = 0x400;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// One request under construction: a header that is filled in when it is sent, a fixed part, attributes.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A request of a kind with its fixed part.
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

    /// Adds a number.
    #[must_use]
    pub fn put_u32(self, kind: u16, value: u32) -> Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds a text, ended by a zero.
    #[must_use]
    pub fn put_text(self, kind: u16, value: &str) -> Self {
        self.put(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute that holds others.
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

/// A socket to a part of the kernel, in the network namespace of the thread that made it.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// To the routing part: links, addresses, queues.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open() -> io::Result<Self> {
        Self::to(SockProtocol::NetlinkRoute)
    }

    /// To the part that tells of sockets.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn sockets() -> io::Result<Self> {
        Self::to(SockProtocol::NetlinkSockDiag)
    }

    fn to(part: SockProtocol) -> io::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, part)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(ANSWER_LIMIT_S, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends messages in order, some at a time, and waits until the kernel has carried them out.
    ///
    /// # Errors
    /// The first refusal; messages of the same chunk behind it were carried out all the same.
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

    /// Sends one message and waits until it is carried out.
    ///
    /// # Errors
    /// Its refusal.
    pub fn one(&mut self, message: Message) -> io::Result<()> {
        self.all(vec![message])
    }

    /// Reads answers up to that to the last message sent.
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

    /// Asks one question; `each` is given the body of the answer.
    ///
    /// # Errors
    /// What the kernel says.
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

    /// Asks for everything of a kind; `each` is given the body of every answer.
    ///
    /// # Errors
    /// What the kernel says.
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

/// Hears what the kernel tells of sockets that end.
#[derive(Debug)]
pub struct Hearing(OwnedFd);

impl Hearing {
    /// Of these multicast groups, by bit.
    ///
    /// # Errors
    /// What the kernel says: without `CAP_NET_ADMIN`, that it is not permitted.
    pub fn sockets(groups: u32) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            flags,
            SockProtocol::NetlinkSockDiag,
        )?;
        setsockopt(&socket, sockopt::RcvBuf, &HEARING_BYTES)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Self(socket))
    }

    /// Gives `each` the body of what came since the last call; returns whether some was lost.
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

/// The error number of an `nlmsgerr`, negative as the kernel has it; 0 for an acknowledgement.
fn code(body: &[u8]) -> i32 {
    body.get(..4)
        .map_or(-libc::EPROTO, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

/// Kind, sequence number and body of each message; stops at the first that makes no sense.
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

/// Kind and value of each attribute; stops at the first that makes no sense.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)?;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        // The upper two bits say that it holds others, or is in network order.
        Some((kind & 0x3fff, value))
    })
}

/// The first attribute of a kind.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(found, _)| *found == kind)
        .map(|(_, value)| value)
}

/// Two bytes as the host orders them.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Four bytes as the host orders them.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Eight bytes as the host orders them.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A text that a zero may end.
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
