//! Traffic between pairs of ends in bytes, from packet captures and from the exports of sFlow, NetFlow and IPFIX
//! meters.
//!
//! [`Packets`] counts the payload of captures, [`Samples`] the samples of sFlow agents, [`Flows`] the exports of flow
//! meters. All return [`Row`]s between the ends that a [`Directory`] names. Memory is bounded: files are streamed,
//! tables have limits, and data that exceed a limit are counted.
//!
//! Bytes are TCP and UDP payload, times are seconds since the epoch.

mod cells;
mod ends;
mod error;
mod exports;
mod flow_records;
mod flows;
mod intake;
mod interval;
mod packets;
mod records;
mod sampled;
mod segment;
mod skipped;
mod tally;

pub use cells::{Counter, MOST_CELLS, MOST_UNNAMED, Row};
pub use ends::{Directory, End, MOST_NAMES, OTHERS};
pub use error::CaptureError;
pub use exports::{Datagram, read_datagrams};
pub use flows::{Flows, Kind};
pub use intake::Intake;
pub use interval::sampled_range;
pub use packets::Packets;
pub use records::{Ending, MAX_RECORD_BYTES, Record, read_records};
pub use sampled::Samples;
pub use segment::{Segment, decode};
pub use skipped::{Skip, Skipped};
pub use tally::{FLOWS_KEPT, Fresh, JUMP_BYTES, Tally};
