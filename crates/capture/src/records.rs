//! Capture files as a stream of records: pcap and pcapng, either byte order, gzip or plain.
//!
//! Only a window of the file is in memory. `pcap-parser` reads the formats. This module adds the facts that byte counts
//! need: each record's interface, its length on the wire, and whether the file ends within a record.

use std::io::{self, Cursor, ErrorKind, Read};

use flate2::read::MultiGzDecoder;
use pcap_parser::pcapng::Block;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};

use crate::error::CaptureError;

/// A record that claims more is damaged: capture tools keep at most 256 KiB of a packet.
pub const MAX_RECORD_BYTES: usize = 1 << 24;
const WINDOW_BYTES: usize = 1 << 20;
const PCAP_HEADER_BYTES: u32 = 24;
const OLD_PACKET: u32 = 2;
/// A block holds its type, and its length twice.
const LEAST_BLOCK_BYTES: usize = 12;

/// One captured packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// Number of the link's kind.
    pub link: u32,
    /// Number of the interface in the file.
    pub interface: u32,
    /// Seconds since the epoch, if the format has a time.
    pub time_s: Option<f64>,
    /// The packet's length before a snap length cut it.
    pub wire_bytes: u64,
    /// The captured bytes of the packet.
    pub data: &'a [u8],
}

/// How a file ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ending {
    /// Number of complete records.
    pub records: u64,
    /// Whether the file ended within a further record.
    pub truncated: bool,
    /// Whether zeros follow the last record, as in a sparse file or after a crash. They are not read.
    pub blank: bool,
}

/// Reads the records of a capture in order.
///
/// # Errors
/// The problem with the file, or the error that `each` returned.
pub fn read_records(
    input: impl Read,
    mut each: impl FnMut(&Record<'_>) -> Result<(), CaptureError>,
) -> Result<Ending, CaptureError> {
    let mut input = input;
    let (head, input) = peeked(&mut input, 4)?;
    if head.is_empty() {
        return Err(CaptureError::Empty);
    }
    if head.starts_with(&[0x1f, 0x8b]) {
        let (_, unpacked) = peeked(MultiGzDecoder::new(input), 4).map_err(|error| match error {
            CaptureError::Io(_) => CaptureError::Gzip,
            other => other,
        })?;
        return plain(unpacked, CaptureError::Gzip, &mut each);
    }
    plain(input, CaptureError::Io(String::new()), &mut each)
}

type Peeked<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// Returns the first bytes, and an input that still contains them.
fn peeked<R: Read>(mut input: R, size: u64) -> Result<(Vec<u8>, Peeked<R>), CaptureError> {
    let mut head = Vec::new();
    match input.by_ref().take(size).read_to_end(&mut head) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(CaptureError::Io(describe(&error))),
    }
    Ok((head.clone(), Cursor::new(head).chain(input)))
}

fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// Keeps the error of a reader, and makes a truncated gzip file end like an ordinary file.
struct Watched<R> {
    input: R,
    failed: Option<String>,
    cut: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.input.read(buffer) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.cut = true;
                Ok(0)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => self.read(buffer),
            Err(error) => {
                self.failed = Some(describe(&error));
                Err(error)
            }
            read => read,
        }
    }
}

fn plain<R: Read>(
    input: Peeked<R>,
    failure: CaptureError,
    each: &mut impl FnMut(&Record<'_>) -> Result<(), CaptureError>,
) -> Result<Ending, CaptureError> {
    // The readers need their whole first block at once.
    let (head, input) = peeked(input, 12)?;
    let first = match head.as_slice() {
        [0x0a, 0x0d, 0x0d, 0x0a, a, b, c, d, 0x4d, ..] => u32::from_le_bytes([*a, *b, *c, *d]),
        [0x0a, 0x0d, 0x0d, 0x0a, a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]),
        _ => PCAP_HEADER_BYTES,
    };
    let (head, input) = peeked(input, u64::from(first).min(WINDOW_BYTES as u64 / 2))?;
    let mut watched = Watched {
        input,
        failed: None,
        cut: false,
    };
    let walked = match head.get(..4).unwrap_or_default() {
        [0x0a, 0x0d, 0x0d, 0x0a] => PcapNGReader::new(WINDOW_BYTES, &mut watched).map(|reader| walk(reader, each)),
        [0xd4, 0xc3, 0xb2, 0xa1] | [0xa1, 0xb2, 0xc3, 0xd4] | [0x4d, 0x3c, 0xb2, 0xa1] | [0xa1, 0xb2, 0x3c, 0x4d] => {
            LegacyPcapReader::new(WINDOW_BYTES, &mut watched).map(|reader| walk(reader, each))
        }
        start => return Err(other_format(start)),
    };
    if let Some(problem) = watched.failed {
        return Err(match failure {
            CaptureError::Io(_) => CaptureError::Io(problem),
            other => other,
        });
    }
    // Without a valid byte order, the length of the first block means nothing.
    let known = !head.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])
        || matches!(
            head.get(8..12),
            Some([0x4d, 0x3c, 0x2b, 0x1a] | [0x1a, 0x2b, 0x3c, 0x4d])
        );
    let failure = if known && (head.len() as u32) < first {
        CaptureError::NoHeader
    } else {
        CaptureError::NotACapture
    };
    let mut ending = walked.map_err(|_| failure)??;
    ending.truncated |= watched.cut;
    Ok(ending)
}

/// The error for a file that starts like this.
fn other_format(start: &[u8]) -> CaptureError {
    const UNPACK: &str = "unpack it first";
    const CONVERT: &str = "convert it first: editcap -F pcapng";
    let (name, remedy) = match start {
        [0x28, 0xb5, 0x2f, 0xfd] => ("compressed by zstd", UNPACK),
        [0xfd, b'7', b'z', b'X'] => ("compressed by xz", UNPACK),
        [b'B', b'Z', b'h', _] => ("compressed by bzip2", UNPACK),
        [0x04, 0x22, 0x4d, 0x18] => ("compressed by lz4", UNPACK),
        [b'P', b'K', 3, 4] => ("a zip archive", UNPACK),
        [b's', b'n', b'o', b'o'] => ("a snoop capture", CONVERT),
        b"GMBU" | b"RTSS" => ("a capture of Network Monitor", CONVERT),
        [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => ("pcap in Kuznetzov's variant", CONVERT),
        [0, 0, 0, 0] => ("no capture: it begins with zeros", "copy or capture it again"),
        _ => return CaptureError::NotACapture,
    };
    CaptureError::OtherFormat(name, remedy)
}

/// Converts a pcapng resolution: a power of ten, or, with the highest bit set, a power of two.
fn ticks_per_s(resolution: u8) -> f64 {
    let power = i32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 {
        10_f64.powi(power)
    } else {
        2_f64.powi(power)
    }
}

struct Interface {
    link: u32,
    ticks_per_s: f64,
    offset_s: f64,
}

/// The facts from earlier blocks that later blocks need.
#[derive(Default)]
struct Section {
    big_endian: bool,
    /// Whether the file is pcapng.
    blocks: bool,
    interfaces: Vec<Interface>,
    nanoseconds: bool,
}

fn walk(
    mut reader: impl PcapReaderIterator,
    each: &mut impl FnMut(&Record<'_>) -> Result<(), CaptureError>,
) -> Result<Ending, CaptureError> {
    let mut section = Section::default();
    let mut ending = Ending::default();
    let mut window = WINDOW_BYTES;
    loop {
        let number = ending.records + 1;
        let damaged = |problem: &str| CaptureError::Damaged {
            record: number,
            problem: problem.to_owned(),
        };
        // The parser of process information subtracts 12 from any length (pcap-parser 0.17.0).
        if section.blocks
            && section
                .claimed(reader.data())
                .is_some_and(|size| size < LEAST_BLOCK_BYTES)
        {
            return Err(damaged("is too short for a block"));
        }
        match reader.next() {
            Ok((_, PcapBlockOwned::Legacy(packet)))
                if (packet.ts_sec, packet.ts_usec, packet.caplen, packet.origlen) == (0, 0, 0, 0) =>
            {
                ending.blank = true;
                return Ok(ending);
            }
            Ok((size, block)) => {
                if let Some(record) = section.record(&block).map_err(damaged)? {
                    ending.records = number;
                    each(&record)?;
                }
                reader.consume(size);
            }
            Err(PcapError::Eof) => return Ok(ending),
            Err(PcapError::UnexpectedEof) => {
                if section.whole(reader.data()) {
                    return Err(damaged("is too short for what it holds"));
                }
                ending.truncated = true;
                return Ok(ending);
            }
            Err(PcapError::Incomplete(_)) => refill(&mut reader)?,
            Err(PcapError::BufferTooSmall) => {
                window *= 4;
                let claimed = section.claimed(reader.data()).unwrap_or(0);
                if claimed > MAX_RECORD_BYTES || window > 4 * MAX_RECORD_BYTES {
                    return Err(damaged(&format!("claims {claimed} bytes")));
                }
                reader.grow(window);
                refill(&mut reader)?;
            }
            Err(PcapError::ReadError) => return Err(CaptureError::Io("read error".to_owned())),
            Err(_) => return Err(damaged("is not as pcap and pcapng demand")),
        }
    }
}

fn refill(reader: &mut impl PcapReaderIterator) -> Result<(), CaptureError> {
    reader.refill().map_err(|_| CaptureError::Io("read error".to_owned()))
}

impl Section {
    /// The length that the current record or block claims, in bytes.
    fn claimed(&self, data: &[u8]) -> Option<usize> {
        let at = if self.blocks { 4 } else { 8 };
        let four: [u8; 4] = data.get(at..at + 4)?.try_into().ok()?;
        let size = if self.big_endian {
            u32::from_be_bytes(four)
        } else {
            u32::from_le_bytes(four)
        };
        Some(size as usize)
    }

    /// Whether a block is complete but still too short for its contents.
    fn whole(&self, data: &[u8]) -> bool {
        self.blocks && self.claimed(data).is_some_and(|size| size <= data.len())
    }

    /// The packet of a block, if it has one.
    fn record<'a>(&mut self, block: &'a PcapBlockOwned<'a>) -> Result<Option<Record<'a>>, &'static str> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.nanoseconds = header.is_nanosecond_precision();
                self.big_endian = header.is_bigendian();
                self.interfaces = vec![Interface {
                    link: header.network.0 as u32 & 0xffff,
                    ticks_per_s: if self.nanoseconds { 1e9 } else { 1e6 },
                    offset_s: 0.0,
                }];
                Ok(None)
            }
            PcapBlockOwned::Legacy(packet) => {
                let interface = &self.interfaces[0];
                Ok(Some(Record {
                    link: interface.link,
                    interface: 0,
                    time_s: Some(f64::from(packet.ts_sec) + f64::from(packet.ts_usec) / interface.ticks_per_s),
                    wire_bytes: u64::from(packet.origlen.max(packet.caplen)),
                    data: packet.data,
                }))
            }
            PcapBlockOwned::NG(block) => self.block(block),
        }
    }

    fn block<'a>(&mut self, block: &'a Block<'a>) -> Result<Option<Record<'a>>, &'static str> {
        match block {
            Block::SectionHeader(header) => {
                self.big_endian = header.bom == pcap_parser::pcapng::BOM_MAGIC.swap_bytes();
                self.blocks = true;
                self.interfaces.clear();
                Ok(None)
            }
            Block::InterfaceDescription(found) => {
                if self.interfaces.len() >= 1 << 16 {
                    return Err("describes too many interfaces");
                }
                self.interfaces.push(Interface {
                    link: found.linktype.0 as u32 & 0xffff,
                    ticks_per_s: ticks_per_s(found.if_tsresol),
                    offset_s: found.if_tsoffset as f64,
                });
                Ok(None)
            }
            Block::EnhancedPacket(packet) => {
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let kept = packet.packet_data();
                self.packet(packet.if_id, Some(ticks), packet.orig_len(), kept)
                    .map(Some)
            }
            Block::SimplePacket(packet) => {
                let kept = packet.data.len().min(packet.origlen as usize);
                self.packet(0, None, packet.origlen, &packet.data[..kept]).map(Some)
            }
            // The parser always decodes this block type as little-endian.
            Block::Unknown(found) if [OLD_PACKET, OLD_PACKET.swap_bytes()].contains(&found.block_type) => {
                self.old(found.data).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads the Packet Block that pcapng had until 2004 and that some tools still write.
    fn old<'a>(&self, body: &'a [u8]) -> Result<Record<'a>, &'static str> {
        let word = |at: usize| -> Option<u32> {
            let four: [u8; 4] = body.get(at..at + 4)?.try_into().ok()?;
            Some(if self.big_endian {
                u32::from_be_bytes(four)
            } else {
                u32::from_le_bytes(four)
            })
        };
        let fields = || Some((word(0)?, word(4)?, word(8)?, word(12)?, word(16)?));
        let (first, high, low, kept, wire) = fields().ok_or("is too short for a packet")?;
        let interface = if self.big_endian { first >> 16 } else { first & 0xffff };
        let data = body
            .get(20..20 + kept as usize)
            .ok_or("claims more bytes than it has")?;
        self.packet(interface, Some(u64::from(high) << 32 | u64::from(low)), wire, data)
    }

    fn packet<'a>(
        &self,
        index: u32,
        ticks: Option<u64>,
        wire: u32,
        data: &'a [u8],
    ) -> Result<Record<'a>, &'static str> {
        let described = self.interfaces.get(index as usize);
        let interface = described.ok_or("comes from an interface that the file does not describe")?;
        Ok(Record {
            link: interface.link,
            interface: index,
            time_s: ticks.map(|ticks| interface.offset_s + ticks as f64 / interface.ticks_per_s),
            wire_bytes: u64::from(wire).max(data.len() as u64),
            data,
        })
    }
}
