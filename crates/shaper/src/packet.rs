//! Reads and changes the headers of a packet in BPF: its addresses, its number, its type of service.
//!
//! [`read`] leaves what it found in the frame, whose slots are the constants below.

use gavotte_kernel::assembler::Op::{Add, And, Lsh, Mov, Mul, Rsh, Sub, Xor};
use gavotte_kernel::assembler::Reg::{R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use gavotte_kernel::assembler::When::{Equal, Greater, NotEqual};
use gavotte_kernel::assembler::Width::{Byte, Double, Half, Word};
use gavotte_kernel::assembler::{Assembler, Reg};

const STORE_BYTES: i32 = 9;
const L3_CHECKSUM: i32 = 10;
pub(crate) const CTX_LEN: i16 = 0;
pub(crate) const CTX_PROTOCOL: i16 = 16;
pub(crate) const CTX_DATA: i16 = 76;
pub(crate) const CTX_DATA_END: i16 = 80;
const CTX_GSO_SEGS: i16 = 164;
pub(crate) const ETHERNET: i16 = 14;
const CHECKSUM: i32 = ETHERNET as i32 + 10;

/// The positions of a header's fields, and its length.
pub(crate) struct Header {
    pub(crate) kind: i32,
    pub(crate) bytes: i16,
    id: i16,
    addresses: i16,
    /// The place of the protocol's number.
    pub(crate) protocol: i16,
    /// Bits of the first 16 after the traffic class.
    behind: i32,
}

const IPV4: Header = Header {
    kind: 0x0800,
    bytes: 20,
    id: ETHERNET + 4,
    addresses: ETHERNET + 12,
    protocol: ETHERNET + 9,
    behind: 0,
};

pub(crate) const IPV6: Header = Header {
    kind: 0x86dd,
    bytes: 40,
    id: ETHERNET + 2,
    addresses: ETHERNET + 8,
    protocol: ETHERNET + 6,
    behind: 4,
};

/// TCP's header, which every further segment repeats together with the headers before it.
const TCP_BYTES: i32 = 20;
const IPV4_FRAGMENT: i16 = ETHERNET + 6;
/// The first byte of IPv4 headers without options.
const IPV4_PLAIN: i32 = 0x45;
/// The place of TCP's flags in its header, and the flag of segments that open a connection.
const TCP_FLAGS: i16 = 13;
const TCP_SYN: i32 = 2;
/// The prefix of an IPv4 address mapped into IPv6.
const MAPPED: i32 = i32::from_ne_bytes([0, 0, 0xff, 0xff]);
const TCP: i32 = 6;
/// A fragment header of IPv6.
const FRAGMENTED: i32 = 44;
/// A header of `IPsec` that authenticates the IP header, IPv4's ID included.
const AUTHENTICATED: i32 = 51;
const NOT_A_FRAGMENT: i32 = 0x3fff;

// The frame.
pub(crate) const KEY: i16 = -32;
pub(crate) const INDEX: i16 = -36;
const PIECE: i16 = -40;
pub(crate) const ID_RAW: i16 = -48;
/// The first 16 bits unchanged, and the traffic class from them.
const FIRST_RAW: i16 = -56;
pub(crate) const TOS: i16 = -64;
pub(crate) const UNNUMBERED: i16 = -72;
pub(crate) const MARKED: i16 = -80;
/// Bits after the traffic class: 0 means IPv4.
pub(crate) const BEHIND: i16 = -88;
pub(crate) const ID_AT: i16 = -96;
pub(crate) const FLIP: i16 = -104;
pub(crate) const LENGTH: i16 = -112;
const PROTOCOL: i16 = -120;
/// 1 for a segment of TCP that may become ECN-capable.
pub(crate) const SEGMENT: i16 = -128;
pub(crate) const COOKIE: i16 = -136;

/// Stores the context in R6, segments in R8, bytes in R9 and the header's fields in the frame.
pub(crate) fn read(program: &mut Assembler) {
    program
        .op(Mov, R6, R1)
        .load(Word, R7, R6, CTX_DATA)
        .load(Word, R8, R6, CTX_DATA_END)
        .load(Word, R2, R6, CTX_PROTOCOL)
        .big_endian(R2, 16)
        .jump_value(Equal, R2, IPV6.kind, "ipv6")
        .jump_value(NotEqual, R2, IPV4.kind, "pass");
    header(program, &IPV4);
    for (at, value) in [(0, 0), (4, 0), (8, MAPPED)] {
        program
            .store_value(Word, R10, KEY + at, value)
            .store_value(Word, R10, KEY + 16 + at, value);
    }
    program
        .load(Word, R2, R7, IPV4.addresses)
        .store(Word, R10, KEY + 12, R2)
        .load(Word, R2, R7, IPV4.addresses + 4)
        .store(Word, R10, KEY + 28, R2)
        .load(Half, R2, R7, IPV4_FRAGMENT)
        .big_endian(R2, 16)
        .op_value(And, R2, NOT_A_FRAGMENT)
        .store(Double, R10, UNNUMBERED, R2)
        .load(Double, R2, R10, PROTOCOL)
        .jump_value(NotEqual, R2, AUTHENTICATED, "open")
        .store_value(Double, R10, UNNUMBERED, 1)
        .label("open")
        .load(Byte, R2, R7, ETHERNET)
        .jump_value(NotEqual, R2, IPV4_PLAIN, "no segment of ipv4");
    segment(program, &IPV4, "no segment of ipv4");
    program
        .op_value(Mov, R3, i32::from(ETHERNET + IPV4.bytes) + TCP_BYTES)
        .jump_always("known")
        .label("ipv6");
    header(program, &IPV6);
    for word in 0..8 {
        program
            .load(Word, R2, R7, IPV6.addresses + 4 * word)
            .store(Word, R10, KEY + 4 * word, R2);
    }
    program
        .store_value(Double, R10, UNNUMBERED, 0)
        .load(Double, R2, R10, PROTOCOL)
        .jump_value(NotEqual, R2, FRAGMENTED, "whole")
        .store_value(Double, R10, UNNUMBERED, 1)
        .label("whole");
    segment(program, &IPV6, "no segment of ipv6");
    program
        .op_value(Mov, R3, i32::from(ETHERNET + IPV6.bytes) + TCP_BYTES)
        .label("known")
        .load(Word, R8, R6, CTX_GSO_SEGS)
        .jump_value(NotEqual, R8, 0, "segments")
        .op_value(Mov, R8, 1)
        .label("segments")
        .load(Word, R9, R6, CTX_LEN)
        .op(Mov, R2, R8)
        .op_value(Sub, R2, 1)
        .op(Mul, R2, R3)
        .op(Add, R9, R2)
        .store(Double, R10, LENGTH, R9);
}

/// Reads the fields that both kinds of header have. The packet is R7 to R8.
fn header(program: &mut Assembler, header: &Header) {
    program
        .op(Mov, R2, R7)
        .op_value(Add, R2, i32::from(ETHERNET + header.bytes))
        .jump(Greater, R2, R8, "pass")
        .store_value(Double, R10, BEHIND, header.behind)
        .store_value(Double, R10, ID_AT, header.id.into())
        .load(Half, R2, R7, header.id)
        .store(Double, R10, ID_RAW, R2)
        .load(Byte, R2, R7, header.protocol)
        .store(Double, R10, PROTOCOL, R2)
        .load(Half, R2, R7, ETHERNET)
        .store(Double, R10, FIRST_RAW, R2)
        .big_endian(R2, 16)
        .op_value(Rsh, R2, header.behind)
        .op_value(And, R2, 0xff)
        .store(Double, R10, TOS, R2)
        .store_value(Double, R10, SEGMENT, 0);
}

/// Stores whether the packet is a segment of TCP that may become ECN-capable: Linux declines ECN if the first one is.
/// Anything else may contain packets of others. A tunnel drops those whose outer header was marked and whose inner
/// header is not ECN-capable (RFC 6040).
fn segment(program: &mut Assembler, header: &Header, otherwise: &'static str) {
    let tcp = ETHERNET + header.bytes;
    program
        .load(Double, R2, R10, PROTOCOL)
        .jump_value(NotEqual, R2, TCP, otherwise)
        .op(Mov, R2, R7)
        .op_value(Add, R2, i32::from(tcp) + TCP_BYTES)
        .jump(Greater, R2, R8, otherwise)
        .load(Byte, R2, R7, tcp + TCP_FLAGS)
        .op_value(And, R2, TCP_SYN)
        .jump_value(NotEqual, R2, 0, otherwise)
        .store_value(Double, R10, SEGMENT, 1)
        .label(otherwise);
}

/// Writes 16 bits of the header, and IPv4's checksum.
///
/// `from` is a slot of the frame with the old value, `to` a register with the new one, both in packet order. `at` is a slot with the offset.
pub(crate) fn rewrite(program: &mut Assembler, at: i16, from: i16, to: Reg, done: &'static str) {
    program
        .store(Half, R10, PIECE, to)
        .load(Double, R1, R10, BEHIND)
        .jump_value(NotEqual, R1, 0, done)
        .op(Mov, R4, to)
        .op(Mov, R1, R6)
        .op_value(Mov, R2, CHECKSUM)
        .load(Double, R3, R10, from)
        .op_value(Mov, R5, 2)
        .call(L3_CHECKSUM)
        .label(done)
        .op(Mov, R1, R6)
        .load(Double, R2, R10, at)
        .op(Mov, R3, R10)
        .op_value(Add, R3, PIECE.into())
        .op_value(Mov, R4, 2)
        .op_value(Mov, R5, 0)
        .call(STORE_BYTES);
}

/// Inverts the bits of the type of service that the slot `FLIP` has.
pub(crate) fn flip(program: &mut Assembler) {
    program
        .load(Double, R3, R10, FLIP)
        .jump_value(Equal, R3, 0, "flipped")
        .load(Double, R7, R10, FIRST_RAW)
        .big_endian(R7, 16)
        .load(Double, R2, R10, BEHIND)
        .op(Lsh, R3, R2)
        .op(Xor, R7, R3)
        .big_endian(R7, 16)
        // The number's place is no longer needed.
        .store_value(Double, R10, ID_AT, ETHERNET.into());
    rewrite(program, ID_AT, FIRST_RAW, R7, "summed");
    program.label("flipped");
}
