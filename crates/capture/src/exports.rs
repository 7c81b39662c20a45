//! Export datagrams in a capture: each UDP payload, with its sender and its time.

use std::io::Read;
use std::net::SocketAddr;

use crate::error::CaptureError;
use crate::records::{Ending, Record, read_records};
use crate::segment::{UnknownLink, decode};
use crate::tally::{Tally, sockets};

/// One UDP payload.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The sender.
    pub source: SocketAddr,
    /// The time of capture.
    pub time_s: Option<f64>,
    /// The payload, as far as it was captured.
    pub payload: &'a [u8],
}

/// Passes the UDP payloads of a capture to `each`, in order. Each counts once, even if `tcpdump -i any` saw it both
/// arrive and leave.
///
/// # Errors
/// The problem with the capture.
pub fn read_datagrams(input: impl Read, mut each: impl FnMut(&Datagram<'_>)) -> Result<Ending, CaptureError> {
    let mut number = 0;
    let mut tally = Tally::default();
    read_records(input, |record: &Record<'_>| {
        number += 1;
        let segment = decode(record).map_err(|UnknownLink(link)| CaptureError::UnknownLink { record: number, link })?;
        if let Some(segment) = segment.filter(|segment| segment.sequence.is_none()) {
            if tally.fresh(&segment) == 0 {
                return Ok(());
            }
            let (source, _) = sockets(&segment);
            each(&Datagram {
                source,
                time_s: record.time_s,
                payload: segment.payload,
            });
        }
        Ok(())
    })
}
