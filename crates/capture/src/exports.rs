//! Export datagrams in a capture: each UDP payload in it, with who sent it and when.

use std::io::Read;
use std::net::SocketAddr;

use crate::error::CaptureError;
use crate::records::{Ending, Record, read_records};
use crate::segment::{UnknownLink, decode};
use crate::tally::{Tally, sockets};

/// One UDP payload.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub source: SocketAddr,
    /// When it was captured.
    pub time_s: Option<f64>,
    /// What it carries, as far as it was kept.
    pub payload: &'a [u8],
}

/// Gives the UDP payloads of a capture in their order, each once though `tcpdump -i any` saw it come in and go out.
///
/// # Errors
/// What is wrong with the capture.
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
