//! Traffic between pairs of ends in bytes, from captures and from flow meters.

use std::fs::File;
use std::io::{Read, stdin};
use std::net::{IpAddr, SocketAddr};

use gavotte_capture::{CaptureError, Counter, Directory, Flows, Kind, Packets, Row, Samples, read_datagrams};
use pyo3::prelude::*;

use crate::errors::Error;

/// Interval, source, target, bytes, and the ends of the 95 % interval of the bytes.
type RowTuple = (i64, String, String, u64, u64, u64);

fn tuples(rows: Vec<Row>) -> Vec<RowTuple> {
    let tuple = |row: Row| {
        (
            row.interval,
            row.source,
            row.target,
            row.bytes,
            row.low_bytes,
            row.high_bytes,
        )
    };
    rows.into_iter().map(tuple).collect()
}

fn format(path: &str) -> impl Fn(CaptureError) -> Error {
    let path = path.to_owned();
    move |error| {
        let (place, problem, remedy) = error.parts();
        Error::Format {
            path: path.clone(),
            place,
            problem,
            remedy,
        }
    }
}

/// A file, or standard input for `-`.
fn opened(path: &str) -> Result<Box<dyn Read + Send>, Error> {
    if path == "-" {
        return Ok(Box::new(stdin()));
    }
    let unreadable = |error: std::io::Error| {
        let problem = match error.kind() {
            std::io::ErrorKind::NotFound => "no such file".to_owned(),
            _ => format!(
                "cannot be read: {}",
                error.to_string().split(" (os error").next().unwrap_or_default()
            ),
        };
        Error::Format {
            path: path.to_owned(),
            place: String::new(),
            problem,
            remedy: "check the path".to_owned(),
        }
    };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok(Box::new(file))
}

fn directory(names: Option<Vec<String>>) -> Result<Directory, Error> {
    names.map_or_else(
        || Ok(Directory::default()),
        |names| Directory::new(&names).map_err(|key| Error::Value(format!("`{key}` is not an end"))),
    )
}

type Captured = (Vec<RowTuple>, Vec<Counter>, bool, Option<(f64, f64)>);

/// Reads captures of packets.
#[pyfunction]
pub(crate) fn captured(
    py: Python<'_>,
    paths: Vec<String>,
    names: Option<Vec<String>>,
    every_s: Option<f64>,
) -> PyResult<Captured> {
    let read = move || {
        let mut packets = Packets::new(directory(names)?, every_s);
        for path in &paths {
            packets.read(opened(path)?).map_err(format(path))?;
        }
        Ok::<_, Error>((
            tuples(packets.rows()),
            packets.counters(),
            packets.truncated(),
            packets.whole_s(),
        ))
    };
    Ok(py.detach(read)?)
}

enum Reader {
    Samples(Box<Samples>),
    Flows(Box<Flows>),
}

impl Reader {
    fn datagram(&mut self, source: SocketAddr, payload: &[u8], time_s: Option<f64>) {
        match self {
            Self::Samples(samples) => samples.datagram(source.ip(), payload, time_s),
            Self::Flows(flows) => flows.datagram(source, payload),
        }
    }
}

/// The exports of flow meters: sFlow, NetFlow or IPFIX.
#[pyclass(module = "gavotte._core")]
pub(crate) struct Exports {
    reader: Reader,
}

#[pymethods]
impl Exports {
    #[new]
    fn new(kind: &str, names: Option<Vec<String>>, every_s: Option<f64>) -> PyResult<Self> {
        let ends = directory(names)?;
        let reader = match kind {
            "sflow" => Reader::Samples(Box::new(Samples::new(ends, every_s))),
            "netflow" => Reader::Flows(Box::new(Flows::new(Kind::NetFlow, ends, every_s))),
            "ipfix" => Reader::Flows(Box::new(Flows::new(Kind::Ipfix, ends, every_s))),
            _ => return Err(Error::Value(format!("`{kind}` is not an export")).into()),
        };
        Ok(Self { reader })
    }

    /// Reads one datagram.
    fn datagram(&mut self, payload: &[u8], address: IpAddr, port: u16, time_s: f64) {
        self.reader
            .datagram(SocketAddr::new(address.to_canonical(), port), payload, Some(time_s));
    }

    /// Reads the datagrams in a capture; returns whether it ends within a record.
    fn capture(&mut self, py: Python<'_>, path: &str) -> PyResult<bool> {
        let read = || {
            let each = |found: &gavotte_capture::Datagram<'_>| {
                self.reader.datagram(found.source, found.payload, found.time_s);
            };
            read_datagrams(opened(path)?, each).map_err(format(path))
        };
        Ok(py.detach(read).map(|ending| ending.truncated)?)
    }

    /// Bytes by pair.
    fn rows(&self) -> Vec<RowTuple> {
        tuples(match &self.reader {
            Reader::Samples(samples) => samples.rows(),
            Reader::Flows(flows) => flows.rows(),
        })
    }

    /// The counters of skipped, lost and unplaced data.
    fn counters(&self) -> Vec<Counter> {
        match &self.reader {
            Reader::Samples(samples) => samples.counters(),
            Reader::Flows(flows) => flows.counters(),
        }
    }
}
