//! The BPF classifiers: one for packets that leave an interface, one for packets that arrive, one for a switch port.
//!
//! All of them identify a packet's pair by its two addresses, with IPv4 mapped into IPv6, and let every packet
//! continue. The number of a packet is its IP ID. IPv6 has no field to spare: routers choose among equal paths by the
//! flow label. A packet of several segments counts as that many packets, with the headers that each of them will have.
//!
//! Packets that leave in no pair share the class [`REST`]. No packet chooses its class itself: a program may set the
//! priority of its sockets, so the classifier sets every packet's priority. It knows the agents' own datagrams by the
//! cookie that the kernel gave their socket.

use gavotte_kernel::assembler::Assembler;
use gavotte_kernel::assembler::Op::{Add, And, Arsh, Div, Lsh, Mov, Mul, Or, Rsh, Sub};
use gavotte_kernel::assembler::Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use gavotte_kernel::assembler::When::{Equal, Greater, Less, NotEqual, SignedGreater, SignedLess};
use gavotte_kernel::assembler::Width::{Byte, Double, Word};

use crate::packet::{
    BEHIND, COOKIE, CTX_DATA, CTX_DATA_END, CTX_LEN, CTX_PROTOCOL, ETHERNET, FLIP, ID_AT, ID_RAW, INDEX, IPV6, KEY,
    LENGTH, MARKED, SEGMENT, TOS, UNNUMBERED, flip, read, rewrite,
};
use crate::tc::{REST, ROOT};

/// Words of an entry that counts leaving packets.
pub(crate) mod out {
    pub(crate) const PACKETS: usize = 0;
    pub(crate) const BYTES: usize = 1;
    /// Packets that found their class's queue full.
    pub(crate) const DROPPED: usize = 2;
    /// Estimated bytes that wait in the class, the time of that estimate, bytes per second that leave it (0 = no
    /// estimate), and the largest number that may wait.
    pub(crate) const LEVEL: usize = 3;
    pub(crate) const LAST_NS: usize = 4;
    pub(crate) const DRAIN: usize = 5;
    pub(crate) const ROOM: usize = 6;
    /// 1 = make segments of TCP that are not ECN-capable ECT(0), so that switches mark them.
    pub(crate) const ECT: usize = 7;
    pub(crate) const WORDS: usize = 8;
}

/// Words of an entry that counts arriving packets.
pub(crate) mod arrived {
    pub(crate) const PACKETS: usize = 0;
    pub(crate) const BYTES: usize = 1;
    /// The number that the next packet should have, widened from 16 bits.
    pub(crate) const NEXT: usize = 2;
    /// The number of the first packet, plus 65536; 0 before the first packet.
    pub(crate) const FIRST: usize = 3;
    pub(crate) const CE: usize = 4;
    pub(crate) const WOULD_MARK: usize = 5;
    /// Bytes of the agents' own datagrams, which count nowhere else.
    pub(crate) const CONTROL_BYTES: usize = 6;
    pub(crate) const WORDS: usize = 7;
}

/// Words of a phantom queue.
pub(crate) mod phantom {
    pub(crate) const LEVEL: usize = 0;
    pub(crate) const LAST_NS: usize = 1;
    /// Bytes that leave the queue per second; 0 = no queue.
    pub(crate) const DRAIN: usize = 2;
    /// The length from which the queue marks packets; the share of marks grows up to twice this length, where all are
    /// marked.
    pub(crate) const THRESHOLD: usize = 3;
    pub(crate) const MARKED: usize = 4;
    pub(crate) const PACKETS: usize = 5;
    pub(crate) const WORDS: usize = 6;
}

/// Words about packets that leave in no pair.
pub(crate) mod rest {
    /// The cookie of the socket whose datagrams wait in no class; 0 = none.
    pub(crate) const COOKIE: usize = 0;
    pub(crate) const BYTES: usize = 1;
    pub(crate) const WORDS: usize = 2;
}

/// Descriptors of the maps that a program uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maps {
    pub(crate) pairs: i32,
    pub(crate) out: i32,
    pub(crate) arrived: i32,
    pub(crate) phantom: i32,
    pub(crate) rest: i32,
}

const LOOK_UP: i32 = 1;
const KTIME: i32 = 5;
const RANDOM: i32 = 7;
const SOCKET_COOKIE: i32 = 46;
const SET_CE: i32 = 97;

const CTX_PRIORITY: i16 = 32;

const ARP: i32 = 0x0806;
const ICMPV6: i32 = 58;
/// `ICMPv6` messages of neighbour discovery: the first, and the number of further ones.
const DISCOVERY: i32 = 133;
const DISCOVERY_MORE: i32 = 4;

/// Lets the packet continue to the next filter.
const PASS: i32 = -1;
const DROP: i32 = 2;
const RANDOM_BITS: i32 = 16;
const RANDOM_MASK: i32 = (1 << RANDOM_BITS) - 1;
const DSCP: i32 = 0xfc;
/// The type of service of packets that are not numbered because they overtake others on their host. Code point 3 has no
/// meaning (RFC 2474). The network queues these packets with all others, so their transit time shows its queues.
pub const CONTROL: u8 = 0x0c;
const ECN: i32 = 3;
const ECT_0: i32 = 2;
const CE: i32 = 3;

fn word(index: usize) -> i16 {
    8 * index as i16
}

/// R0 = the entry of `map` with the number in `INDEX`.
fn entry(program: &mut Assembler, map: i32) {
    program
        .load_map(R1, map)
        .op(Mov, R2, R10)
        .op_value(Add, R2, INDEX.into())
        .call(LOOK_UP)
        .jump_value(Equal, R0, 0, "pass");
}

/// R0 = the pair's place and class.
fn pair(program: &mut Assembler, maps: Maps) {
    program
        .load_map(R1, maps.pairs)
        .op(Mov, R2, R10)
        .op_value(Add, R2, KEY.into())
        .call(LOOK_UP)
        .jump_value(Equal, R0, 0, "pass")
        .load(Word, R1, R0, 0)
        .store(Word, R10, INDEX, R1);
}

/// How the program for outgoing packets takes a packet's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// In one step, from Linux 5.12 on.
    Fetched,
    /// It reads the count and adds to it. Two processors may give two packets the same number, and skip the next one: the
    /// receiver sees as many numbers as packets.
    Read,
}

/// The program for outgoing packets. It sets the pair's class as priority, and drops packets that find the class's
/// queue full. It counts and numbers the rest, and makes segments of TCP ECN-capable if the pair requires it. Packets in
/// no pair share a class.
pub(crate) fn egress(maps: Maps, numbering: Numbering) -> Vec<[u8; 8]> {
    let mut program = Assembler::default();
    read(&mut program);
    own(&mut program, maps);
    pair(&mut program, maps);
    program.load(Word, R1, R0, 4).store(Word, R6, CTX_PRIORITY, R1);
    entry(&mut program, maps.out);
    program
        .op(Mov, R7, R0)
        .load(Double, R1, R7, word(out::ECT))
        .jump_value(Equal, R1, 0, "coloured")
        .load(Double, R1, R10, SEGMENT)
        .jump_value(Equal, R1, 0, "coloured")
        .load(Double, R1, R10, UNNUMBERED)
        .jump_value(NotEqual, R1, 0, "coloured")
        .load(Double, R1, R10, TOS)
        .op_value(And, R1, ECN)
        .jump_value(NotEqual, R1, 0, "coloured")
        .load(Double, R1, R10, FLIP)
        .op_value(Or, R1, ECT_0)
        .store(Double, R10, FLIP, R1)
        .label("coloured")
        .load(Double, R1, R7, word(out::DRAIN))
        .jump_value(Equal, R1, 0, "fits");
    drain(&mut program, [out::LAST_NS, out::DRAIN, out::LEVEL]);
    program
        .store(Double, R7, word(out::LEVEL), R4)
        .op(Add, R4, R9)
        .load(Double, R5, R7, word(out::ROOM))
        .jump(Greater, R4, R5, "full")
        .store(Double, R7, word(out::LEVEL), R4)
        .label("fits")
        .add_atomic(R7, word(out::BYTES), R9)
        .load(Double, R1, R10, UNNUMBERED)
        .jump_value(NotEqual, R1, 0, "numbered");
    match numbering {
        Numbering::Fetched => program.fetch_add(R7, word(out::PACKETS), R8).op(Mov, R7, R8),
        Numbering::Read => program
            .load(Double, R1, R7, word(out::PACKETS))
            .add_atomic(R7, word(out::PACKETS), R8)
            .op(Mov, R7, R1),
    }
    .load(Double, R1, R10, BEHIND)
    .jump_value(NotEqual, R1, 0, "numbered")
    .big_endian(R7, 16);
    rewrite(&mut program, ID_AT, ID_RAW, R7, "number");
    program.label("numbered");
    flip(&mut program);
    program
        .exit(PASS)
        .label("full")
        .add_atomic(R7, word(out::DROPPED), R8)
        .exit(DROP);
    beyond(&mut program, maps);
    program.finish()
}

/// Lets the agents' own datagrams pass every class. Others with the same type of service lose it: receivers would not
/// number them.
fn own(program: &mut Assembler, maps: Maps) {
    program
        .store_value(Double, R10, FLIP, 0)
        .load(Double, R1, R10, TOS)
        .op_value(And, R1, DSCP)
        .jump_value(NotEqual, R1, CONTROL.into(), "others")
        .op(Mov, R1, R6)
        .call(SOCKET_COOKIE)
        .store(Double, R10, COOKIE, R0)
        .store_value(Word, R10, INDEX, 0);
    entry(program, maps.rest);
    program
        .load(Double, R1, R0, word(rest::COOKIE))
        .jump_value(Equal, R1, 0, "foreign")
        .load(Double, R2, R10, COOKIE)
        .jump(Equal, R1, R2, "direct")
        .label("foreign")
        .store_value(Double, R10, FLIP, CONTROL.into())
        .label("others");
}

/// Handles packets in no pair: they share a class, but for those without which no address can be found.
fn beyond(program: &mut Assembler, maps: Maps) {
    program
        .label("pass")
        .load(Word, R2, R6, CTX_PROTOCOL)
        .big_endian(R2, 16)
        .jump_value(Equal, R2, ARP, "direct")
        .jump_value(NotEqual, R2, IPV6.kind, "rest")
        .load(Word, R7, R6, CTX_DATA)
        .load(Word, R8, R6, CTX_DATA_END)
        .op(Mov, R2, R7)
        .op_value(Add, R2, i32::from(ETHERNET + IPV6.bytes) + 1)
        .jump(Greater, R2, R8, "rest")
        .load(Byte, R2, R7, IPV6.protocol)
        .jump_value(NotEqual, R2, ICMPV6, "rest")
        .load(Byte, R2, R7, ETHERNET + IPV6.bytes)
        .op_value(Sub, R2, DISCOVERY)
        .jump_value(Greater, R2, DISCOVERY_MORE, "rest")
        .label("direct")
        .op_value(Mov, R1, ROOT as i32)
        .store(Word, R6, CTX_PRIORITY, R1)
        .exit(PASS)
        .label("rest")
        .op_value(Mov, R1, (ROOT | u32::from(REST)) as i32)
        .store(Word, R6, CTX_PRIORITY, R1)
        .store_value(Word, R10, INDEX, 0)
        .load_map(R1, maps.rest)
        .op(Mov, R2, R10)
        .op_value(Add, R2, INDEX.into())
        .call(LOOK_UP)
        .jump_value(Equal, R0, 0, "uncounted")
        .load(Word, R1, R6, CTX_LEN)
        .add_atomic(R0, word(rest::BYTES), R1)
        .label("uncounted")
        .exit(PASS);
}

/// R4 = the present length of a draining queue in the entry at R7, given the words of its last time, drain and level.
fn drain(program: &mut Assembler, [last_ns, drain, level]: [usize; 3]) {
    program
        .call(KTIME)
        .load(Double, R1, R7, word(last_ns))
        .store(Double, R7, word(last_ns), R0)
        .op(Mov, R2, R0)
        .op(Sub, R2, R1)
        // Another processor may have updated the queue later.
        .jump_value(SignedGreater, R2, -1, "forward")
        .op_value(Mov, R2, 0)
        .label("forward")
        .jump_value(Less, R2, 1_000_000_000, "recent")
        .op_value(Mov, R2, 1_000_000_000)
        .label("recent")
        .load(Double, R3, R7, word(drain))
        .op(Mul, R3, R2)
        .op_value(Div, R3, 1_000_000_000)
        .load(Double, R4, R7, word(level))
        .op(Sub, R4, R3)
        .jump_value(SignedGreater, R4, -1, "drained")
        .op_value(Mov, R4, 0)
        .label("drained");
}

/// Adds the packet to the phantom queue: `MARKED` = 1 if the queue was too long.
fn queue(program: &mut Assembler, maps: Maps) {
    program
        .store_value(Double, R10, MARKED, 0)
        .store_value(Word, R10, INDEX, 0);
    entry(program, maps.phantom);
    program
        .op(Mov, R7, R0)
        .load(Double, R1, R7, word(phantom::DRAIN))
        .jump_value(Equal, R1, 0, "queued")
        .add_atomic(R7, word(phantom::PACKETS), R8);
    drain(program, [phantom::LAST_NS, phantom::DRAIN, phantom::LEVEL]);
    program
        .op(Add, R4, R9)
        // R3 = the excess over the threshold. The queue has at most twice the threshold, as a switch would drop the
        // rest.
        .load(Double, R5, R7, word(phantom::THRESHOLD))
        .op(Mov, R3, R4)
        .op(Sub, R3, R5)
        .jump(SignedLess, R3, R5, "short")
        .op(Mov, R3, R5)
        .op(Mov, R4, R5)
        .op_value(Lsh, R4, 1)
        .label("short")
        .store(Double, R7, word(phantom::LEVEL), R4)
        .jump_value(SignedLess, R3, 1, "queued")
        // The share of marked packets is the excess as a share of the threshold, as in RED. Marking all or none would
        // make all senders slow down until the queue has drained, long after their rates are low enough.
        .op(Mov, R9, R3)
        .call(RANDOM)
        .load(Double, R5, R7, word(phantom::THRESHOLD))
        .op_value(And, R0, RANDOM_MASK)
        .op(Mul, R0, R5)
        .op_value(Rsh, R0, RANDOM_BITS)
        .jump(SignedLess, R9, R0, "queued")
        .store_value(Double, R10, MARKED, 1)
        .add_atomic(R7, word(phantom::MARKED), R8)
        .label("queued");
    // R9 holds bytes again.
    program.load(Double, R9, R10, LENGTH);
}

/// Sets CE on a marked packet that is ECN-capable.
fn mark(program: &mut Assembler) {
    program
        .load(Double, R1, R10, MARKED)
        .jump_value(Equal, R1, 0, "unmarked")
        .load(Double, R1, R10, TOS)
        .op_value(And, R1, ECN)
        .jump_value(Equal, R1, 0, "unmarked")
        .op(Mov, R1, R6)
        .call(SET_CE)
        .label("unmarked");
}

/// The program for arriving packets. It counts bytes, packets, gaps in the numbers and CE marks. It adds every packet
/// to a phantom queue, whose marks count even if the packet cannot carry CE. The agents' own datagrams are no traffic of
/// a pair: if they were, each of them would be answered by another one, also between idle hosts.
pub(crate) fn ingress(maps: Maps) -> Vec<[u8; 8]> {
    let mut program = Assembler::default();
    read(&mut program);
    queue(&mut program, maps);
    mark(&mut program);
    pair(&mut program, maps);
    entry(&mut program, maps.arrived);
    program
        .op(Mov, R7, R0)
        .load(Double, R1, R10, TOS)
        .op_value(And, R1, DSCP)
        .jump_value(NotEqual, R1, CONTROL.into(), "traffic")
        .add_atomic(R7, word(arrived::CONTROL_BYTES), R9)
        .exit(PASS)
        .label("traffic")
        .add_atomic(R7, word(arrived::BYTES), R9)
        .load(Double, R1, R10, TOS)
        .op_value(And, R1, ECN)
        .jump_value(NotEqual, R1, CE, "unhurt")
        .add_atomic(R7, word(arrived::CE), R8)
        .label("unhurt")
        .load(Double, R1, R10, MARKED)
        .jump_value(Equal, R1, 0, "spared")
        .add_atomic(R7, word(arrived::WOULD_MARK), R8)
        .label("spared")
        .load(Double, R1, R10, UNNUMBERED)
        .jump_value(NotEqual, R1, 0, "counted")
        .load(Double, R1, R10, BEHIND)
        .jump_value(NotEqual, R1, 0, "unnumbered")
        .load(Double, R1, R10, ID_RAW)
        .big_endian(R1, 16)
        .load(Double, R2, R7, word(arrived::FIRST))
        .jump_value(NotEqual, R2, 0, "started")
        .op_value(Add, R1, 1 << 16)
        .store(Double, R7, word(arrived::FIRST), R1)
        .store(Double, R7, word(arrived::NEXT), R1)
        .label("started")
        .add_atomic(R7, word(arrived::PACKETS), R8)
        // The distance to the expected number, as a signed 16-bit number: an overtaken packet is behind.
        .load(Double, R2, R7, word(arrived::NEXT))
        .op(Add, R1, R8)
        .op(Sub, R1, R2)
        .op_value(Lsh, R1, 48)
        .op_value(Arsh, R1, 48)
        .jump_value(SignedLess, R1, 1, "counted")
        .op(Add, R2, R1)
        .store(Double, R7, word(arrived::NEXT), R2)
        .jump_always("counted")
        .label("unnumbered")
        .add_atomic(R7, word(arrived::PACKETS), R8)
        .label("counted")
        .label("pass")
        .exit(PASS);
    program.finish()
}

/// The program of a switch port: a phantom queue that sets CE on ECN-capable packets.
pub(crate) fn port(maps: Maps) -> Vec<[u8; 8]> {
    let mut program = Assembler::default();
    read(&mut program);
    queue(&mut program, maps);
    mark(&mut program);
    program.label("pass").exit(PASS);
    program.finish()
}
