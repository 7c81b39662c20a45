//! Export datagrams in a capture: each UDP payload, with its sender and its time.

use std::io::Read;
use std::net::SocketAddr;

use crate::error::CaptureError;
use crate::records::{Ending, Record, read_records};
use crate::segment::decode;
use crate::skipped::{Skip, Skipped};
use crate::tally::{Tally, sockets};

/// TCP's number.
const TCP: u8 = 6;

/// One UDP payload.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The sender.
    pub source: SocketAddr,
    /// The time of capture.
    pub time_s: Option<f64>,
    /// The payload, as far as it was captured.
    pub payload: &'a [u8],
    /// Whether the capture has only a part of it.
    pub cut: bool,
}

/// The name of the kind of export that a datagram looks like, by its version and its lengths.
pub(crate) fn kind_of(payload: &[u8]) -> &'static str {
    let short = |at: usize| {
        let two: Option<[u8; 2]> = payload.get(at..at + 2).and_then(|part| part.try_into().ok());
        usize::from(two.map_or(0, u16::from_be_bytes))
    };
    let (version, count) = (short(0), short(2));
    match (version, count) {
        (0, 5) => "sFlow version 5",
        (0, 2) => "sFlow version 2",
        (0, 4) => "sFlow version 4",
        (1, 1..=24) if payload.len() >= 16 + 52 * count => "NetFlow version 1",
        (5, 1..=30) if payload.len() >= 24 => "NetFlow version 5",
        (7, 1..=28) if payload.len() >= 24 => "NetFlow version 7",
        (8, 1..=51) if payload.len() >= 28 => "NetFlow version 8",
        (9, 1..) if sets_begin(payload, 20, [0, 1]) => "NetFlow version 9",
        // A snap length may have cut it.
        (10, _) if count >= payload.len() && sets_begin(payload, 16, [2, 3]) => "IPFIX",
        _ => "other UDP datagrams",
    }
}

/// Whether the header ends here, and a set begins that has the number of templates or of data.
fn sets_begin(payload: &[u8], at: usize, templates: [u8; 2]) -> bool {
    match payload.get(at..) {
        Some([high, low, a, b, ..]) => (*high > 0 || templates.contains(low)) && u16::from_be_bytes([*a, *b]) >= 4,
        Some([]) => true,
        _ => false,
    }
}

/// Passes the UDP payloads of a capture to `each`, in order. Each counts once, even if `tcpdump -i any` saw it both
/// arrive and leave. Other packets are counted in `skipped`, those of TCP as a protocol.
///
/// # Errors
/// The problem with the capture.
pub fn read_datagrams(
    input: impl Read,
    skipped: &mut Skipped,
    mut each: impl FnMut(&Datagram<'_>),
) -> Result<Ending, CaptureError> {
    let mut tally = Tally::default();
    let mut others = Skipped::default();
    let ending = read_records(input, |record: &Record<'_>| {
        match decode(record) {
            Err(why) => others.add(why),
            Ok(segment) if segment.sequence.is_some() => others.add(Skip::Protocol(TCP)),
            Ok(segment) if tally.fresh(&segment).bytes > 0 => each(&Datagram {
                source: sockets(&segment).0,
                time_s: record.time_s,
                payload: segment.payload,
                cut: (segment.payload.len() as u64) < segment.payload_bytes,
            }),
            Ok(_) => {}
        }
        Ok(())
    })?;
    if let Some(refusal) = others.refusal(ending.records) {
        return Err(refusal);
    }
    skipped.merge(&others);
    Ok(ending)
}

#[cfg(test)]
mod tests {
    use super::kind_of;

    #[test]
    fn the_kind_of_an_export_is_known_by_its_lengths() {
        let empty = [0, 10, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(kind_of(&empty), "IPFIX");
        assert_eq!(kind_of(&empty[..12]), "other UDP datagrams");
        assert_eq!(kind_of(&[0, 5, 0, 1, 9, 9]), "other UDP datagrams");
        assert_eq!(kind_of(&[0, 0, 0, 5]), "sFlow version 5");
        assert_eq!(kind_of(&[]), "other UDP datagrams");
        let nine = [&[0, 9, 0, 1][..], &[0; 16], &[0, 0, 0, 8, 1, 0, 0, 0]].concat();
        assert_eq!(kind_of(&nine), "NetFlow version 9");
    }
}
