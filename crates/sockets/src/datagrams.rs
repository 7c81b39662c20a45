//! UDP payload by socket and by the two ends.
//!
//! BPF programs on the root cgroup count every datagram that leaves or reaches a socket. The programs end when the
//! descriptors that hold them are closed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use gavotte_kernel::assembler::Op::{Add, And, Lsh, Mov, Rsh, Sub};
use gavotte_kernel::assembler::Reg::{R0, R1, R2, R3, R4, R6, R7, R9, R10};
use gavotte_kernel::assembler::When::{Equal, NotEqual, SignedLess};
use gavotte_kernel::assembler::Width::{Double, Half, Word};
use gavotte_kernel::assembler::{Assembler, Reg};
use gavotte_kernel::bpf::{self, Array, Kind, attach, namespace_cookie};

use crate::diag::address;

/// Largest number of conversations that are counted separately. Datagrams beyond that are only counted.
const MOST: u32 = 1 << 16;

// A key as the programs write it.
const KEY_BYTES: usize = 56;
const COOKIE: usize = 0;
const NAMESPACE: usize = 8;
const SOURCE: usize = 16;
const TARGET: usize = 32;
const PORTS: usize = 48;
const VERSION: usize = 52;
const WAY: usize = 54;
const INCOMING: u16 = 1;

// Helpers of the kernel.
const LOOK_UP: i32 = 1;
const UPDATE: i32 = 2;
const LOAD_BYTES: i32 = 26;
const SOCKET_COOKIE: i32 = 46;
const NAMESPACE_COOKIE: i32 = 122;
const ONLY_NEW: i32 = 1;

const CTX_LEN: i16 = 0;
const CTX_PROTOCOL: i16 = 16;
const UDP: i32 = 17;
const UDP_BYTES: i32 = 8;
const LET_PASS: i32 = 1;

// Offsets in the stack frame.
const KEY: i16 = -(KEY_BYTES as i16);
const HEADER: i16 = KEY - 40;
const VALUE: i16 = HEADER - 8;

/// The payload that one socket sent to one other end, or received from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// The socket's cookie, as in `sock_diag`.
    pub(crate) cookie: u64,
    pub(crate) here: SocketAddr,
    pub(crate) there: SocketAddr,
    pub(crate) incoming: bool,
    /// Payload bytes since the last call.
    pub(crate) bytes: u64,
}

/// The counting programs, running.
#[derive(Debug)]
pub(crate) struct Datagrams {
    counts: bpf::HashMap<KEY_BYTES, 8>,
    lost: Array<1>,
    namespace: u64,
    reported: HashMap<[u8; KEY_BYTES], u64>,
    _links: [OwnedFd; 2],
}

/// Checks whether the kernel would let this process count datagrams, without attaching anything.
///
/// # Errors
/// The kernel's error.
pub fn try_counting() -> io::Result<()> {
    cgroup_root()?;
    let counts = bpf::HashMap::<KEY_BYTES, 8>::new(1, "gv_try")?;
    let lost = Array::<1>::new(1, "gv_try")?;
    let code = program(Kind::Egress, counts.fd(), lost.fd(), false);
    bpf::load(&code, Kind::Egress, "gv_try").map(|_| ())
}

impl Datagrams {
    /// Starts to count.
    ///
    /// # Errors
    /// The kernel's error: without `CAP_BPF` and `CAP_NET_ADMIN`, that it is not permitted.
    pub(crate) fn start() -> io::Result<Self> {
        let root = File::open(cgroup_root()?)?;
        let counts = bpf::HashMap::new(MOST, "gv_datagrams")?;
        let lost = Array::new(1, "gv_lost")?;
        // Before Linux 6.15 these programs cannot distinguish network namespaces: then they count all.
        let namespace = namespace_cookie(&UnixDatagram::unbound()?).unwrap_or(0);
        let start = |kind, by_namespace| {
            let code = program(kind, counts.fd(), lost.fd(), by_namespace);
            let name = if kind == Kind::Ingress {
                "gv_received"
            } else {
                "gv_sent"
            };
            attach(&bpf::load(&code, kind, name)?, kind, &root)
        };
        let both = |by_namespace| {
            Ok::<_, io::Error>([start(Kind::Egress, by_namespace)?, start(Kind::Ingress, by_namespace)?])
        };
        let links = both(namespace != 0).or_else(|_| both(false))?;
        Ok(Self {
            counts,
            lost,
            namespace,
            reported: HashMap::new(),
            _links: links,
        })
    }

    /// The conversations since the last call.
    pub(crate) fn fresh(&mut self) -> io::Result<Vec<Conversation>> {
        let mut rows = Vec::new();
        for (key, value) in self.counts.all()? {
            let bytes = u64::from_ne_bytes(value);
            let reported = self.reported.insert(key, bytes).unwrap_or(0);
            let namespace = u64_of(&key, NAMESPACE);
            if bytes > reported && (namespace == 0 || namespace == self.namespace) {
                rows.push(conversation(&key, bytes - reported));
            }
        }
        Ok(rows)
    }

    /// The number of datagrams that found the map full.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.get(0)[0]
    }
}

/// The mount point of cgroup v2.
fn cgroup_root() -> io::Result<String> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    mounts
        .find_map(|mut words| {
            let path = words.nth(1)?;
            (words.next()? == "cgroup2").then(|| path.to_owned())
        })
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "cgroup v2 is not mounted"))
}

fn u64_of(key: &[u8; KEY_BYTES], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|byte| key[at + byte]))
}

fn conversation(key: &[u8; KEY_BYTES], bytes: u64) -> Conversation {
    let half = |at: usize| [key[at], key[at + 1]];
    let version_4 = u16::from_ne_bytes(half(VERSION)) == 4;
    let end = |at: usize, port: usize| {
        let address = address(std::array::from_fn(|byte| key[at + byte]), version_4);
        SocketAddr::new(address, u16::from_be_bytes(half(port)))
    };
    let (source, target) = (end(SOURCE, PORTS), end(TARGET, PORTS + 2));
    let incoming = u16::from_ne_bytes(half(WAY)) == INCOMING;
    let (here, there) = if incoming { (target, source) } else { (source, target) };
    Conversation {
        cookie: u64_of(key, COOKIE),
        here,
        there,
        incoming,
        bytes,
    }
}

fn key(at: usize) -> i16 {
    KEY + at as i16
}

/// Copies bytes of the packet into the frame, from the register or number in R2.
fn load_bytes(program: &mut Assembler, to: i16, bytes: i32) {
    program
        .op(Mov, R1, R6)
        .op(Mov, R3, R10)
        .op_value(Add, R3, to.into())
        .op_value(Mov, R4, bytes)
        .call(LOAD_BYTES)
        .jump_value(NotEqual, R0, 0, "pass");
}

fn copy_words(program: &mut Assembler, from: i16, to: usize, words: i16) {
    for word in 0..words {
        program
            .load(Word, R1, R10, from + 4 * word)
            .store(Word, R10, key(to) + 4 * word, R1);
    }
}

fn look_up(program: &mut Assembler, map: i32, at: i16) {
    program
        .load_map(R1, map)
        .op(Mov, R2, R10)
        .op_value(Add, R2, at.into())
        .call(LOOK_UP);
}

/// Puts a helper's result for the packet into the key.
fn note(program: &mut Assembler, helper: i32, at: usize, into: Reg) {
    program.op(Mov, R1, R6).call(helper).store(Double, R10, key(at), into);
}

/// Counts the payload of each UDP packet, and lets every packet pass. A packet with several segments (GSO) counts
/// whole.
fn program(kind: Kind, counts: i32, lost: i32, by_namespace: bool) -> Vec<[u8; 8]> {
    let mut program = Assembler::default();
    program.op(Mov, R6, R1);
    for at in (0..KEY_BYTES).step_by(8) {
        program.store_value(Double, R10, key(at), 0);
    }
    program
        .store_value(Double, R10, VALUE, 0)
        .store_value(Half, R10, key(WAY), i32::from(kind == Kind::Ingress))
        .load(Word, R2, R6, CTX_PROTOCOL)
        .big_endian(R2, 16)
        .jump_value(Equal, R2, 0x86dd, "version 6")
        .jump_value(NotEqual, R2, 0x0800, "pass")
        .op_value(Mov, R2, 0);
    load_bytes(&mut program, HEADER, 20);
    program
        .load(Half, R1, R10, HEADER + 8)
        .big_endian(R1, 16)
        .op_value(And, R1, 0xff)
        .jump_value(NotEqual, R1, UDP, "pass")
        .load(Half, R7, R10, HEADER)
        .big_endian(R7, 16)
        .op_value(Rsh, R7, 8)
        .op_value(And, R7, 15)
        .op_value(Lsh, R7, 2);
    copy_words(&mut program, HEADER + 12, SOURCE, 1);
    copy_words(&mut program, HEADER + 16, TARGET, 1);
    program
        .store_value(Half, R10, key(VERSION), 4)
        .jump_value(NotEqual, R7, 0, "ports")
        .label("version 6")
        .op_value(Mov, R2, 0);
    load_bytes(&mut program, HEADER, 40);
    program
        .load(Half, R1, R10, HEADER + 6)
        .big_endian(R1, 16)
        .op_value(Rsh, R1, 8)
        .jump_value(NotEqual, R1, UDP, "pass");
    copy_words(&mut program, HEADER + 8, SOURCE, 4);
    copy_words(&mut program, HEADER + 24, TARGET, 4);
    program
        .store_value(Half, R10, key(VERSION), 6)
        .op_value(Mov, R7, 40)
        .label("ports")
        .op(Mov, R2, R7);
    load_bytes(&mut program, key(PORTS), 4);
    program
        .load(Word, R9, R6, CTX_LEN)
        .op(Sub, R9, R7)
        .op_value(Sub, R9, UDP_BYTES)
        .jump_value(SignedLess, R9, 1, "pass");
    note(&mut program, SOCKET_COOKIE, COOKIE, R0);
    if by_namespace {
        note(&mut program, NAMESPACE_COOKIE, NAMESPACE, R0);
    }
    look_up(&mut program, counts, KEY);
    program
        .jump_value(NotEqual, R0, 0, "count")
        .load_map(R1, counts)
        .op(Mov, R2, R10)
        .op_value(Add, R2, KEY.into())
        .op(Mov, R3, R10)
        .op_value(Add, R3, VALUE.into())
        .op_value(Mov, R4, ONLY_NEW)
        .call(UPDATE);
    look_up(&mut program, counts, KEY);
    program
        .jump_value(Equal, R0, 0, "lost")
        .label("count")
        .add_atomic(R0, 0, R9)
        .exit(LET_PASS)
        .label("lost");
    look_up(&mut program, lost, VALUE);
    program
        .jump_value(Equal, R0, 0, "pass")
        .op_value(Mov, R9, 1)
        .add_atomic(R0, 0, R9)
        .label("pass")
        .exit(LET_PASS);
    program.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn datagrams_arrive(over: &str) {
        // Without the privileges this fails; with them it must work.
        let mut datagrams = match Datagrams::start() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            other => other.unwrap(),
        };
        let (client, server) = (UdpSocket::bind(over).unwrap(), UdpSocket::bind(over).unwrap());
        let ends = (client.local_addr().unwrap(), server.local_addr().unwrap());
        for size in [1, 900, 40_000] {
            client.send_to(&vec![7; size], ends.1).unwrap();
            server.recv(&mut vec![0; 65_536]).unwrap();
        }
        let fresh = datagrams.fresh().unwrap();
        let of = |here, there| {
            fresh
                .iter()
                .find(|each| (each.here, each.there) == (here, there))
                .unwrap()
        };
        assert_eq!((of(ends.0, ends.1).bytes, of(ends.0, ends.1).incoming), (40_901, false));
        assert_eq!((of(ends.1, ends.0).bytes, of(ends.1, ends.0).incoming), (40_901, true));
        assert_ne!(of(ends.0, ends.1).cookie, of(ends.1, ends.0).cookie);
        client.send_to(&[1; 5], ends.1).unwrap();
        let more: Vec<_> = datagrams.fresh().unwrap();
        assert!(more.iter().any(|each| each.here == ends.0 && each.bytes == 5));
        assert_eq!(datagrams.lost(), 0);
    }

    #[test]
    fn datagrams_count_once_on_each_side() {
        datagrams_arrive("127.0.0.1:0");
        datagrams_arrive("[::1]:0");
    }
}
