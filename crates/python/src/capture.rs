//! Traffic between pairs of ends in bytes, from captures and from flow meters.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, stdin};
use std::net::{IpAddr, SocketAddr};

use gavotte_capture::{
    CaptureError, Counter, Directory, Ending, Flows, Intake, Kind, Packets, Row, Samples, Skipped, read_datagrams,
};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::Error;

/// Interval, source, target, bytes, and the ends of the 95 % interval of the bytes.
type RowTuple = (i64, Py<PyString>, Py<PyString>, u64, u64, u64);

/// Reasons why packets were skipped, with the number of packets.
type Reasons = Vec<(String, u64)>;

/// The rows with their ends' names, each of which is one Python string.
fn tuples(py: Python<'_>, rows: Vec<Row>, ends: &Directory) -> Vec<RowTuple> {
    let mut names: HashMap<u32, Py<PyString>> = HashMap::new();
    let mut name = |end: u32| {
        let known = names
            .entry(end)
            .or_insert_with(|| PyString::new(py, ends.name(end)).unbind());
        known.clone_ref(py)
    };
    let tuple = |row: Row| {
        (
            row.interval,
            name(row.source),
            name(row.target),
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

type Captured = (Vec<RowTuple>, Vec<Counter>, Reasons, bool, Option<(f64, f64)>);

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
        let rows = packets.rows();
        Ok::<_, Error>((packets, rows))
    };
    let (packets, rows) = py.detach(read)?;
    Ok((
        tuples(py, rows, packets.ends()),
        packets.counters(),
        packets.skipped().named(),
        packets.truncated(),
        packets.whole_s(),
    ))
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

    fn intake(&self) -> &Intake {
        match self {
            Self::Samples(samples) => samples.intake(),
            Self::Flows(flows) => flows.intake(),
        }
    }
}

/// The exports of flow meters: sFlow, NetFlow or IPFIX.
#[pyclass(module = "gavotte._core")]
pub(crate) struct Exports {
    reader: Reader,
    /// Packets of captures that are no datagrams.
    others: Skipped,
    /// Datagrams of which a capture has a part only.
    cut: u64,
    blank: u64,
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
        Ok(Self {
            reader,
            others: Skipped::default(),
            cut: 0,
            blank: 0,
        })
    }

    /// Reads one datagram.
    fn datagram(&mut self, payload: &[u8], address: IpAddr, port: u16, time_s: f64) {
        self.reader
            .datagram(SocketAddr::new(address.to_canonical(), port), payload, Some(time_s));
    }

    /// Reads the datagrams in a capture; returns whether it ends within a record.
    fn capture(&mut self, py: Python<'_>, path: &str) -> PyResult<bool> {
        let Self {
            reader,
            others,
            cut,
            blank,
        } = self;
        let read = || -> Result<Ending, Error> {
            let each = |found: &gavotte_capture::Datagram<'_>| {
                *cut += u64::from(found.cut);
                reader.datagram(found.source, found.payload, found.time_s);
            };
            read_datagrams(opened(path)?, others, each).map_err(format(path))
        };
        let ending = py.detach(read)?;
        *blank += u64::from(ending.blank);
        Ok(ending.truncated)
    }

    /// Bytes by pair.
    fn rows(&self, py: Python<'_>) -> Vec<RowTuple> {
        let rows = match &self.reader {
            Reader::Samples(samples) => samples.rows(),
            Reader::Flows(flows) => flows.rows(),
        };
        tuples(py, rows, &self.reader.intake().ends)
    }

    /// Reasons why samples or flows were skipped, with their numbers.
    fn skipped(&self) -> Reasons {
        self.reader.intake().skipped.named()
    }

    /// Reasons why packets of captures, and datagrams, are no exports of this kind, with their numbers.
    fn others(&self) -> Reasons {
        let mut others = self.others.clone();
        others.merge(&self.reader.intake().others);
        others.named()
    }

    /// What is wrong with the first damaged datagram.
    fn damage(&self) -> Option<&str> {
        self.reader.intake().damage.as_deref()
    }

    /// The counters of skipped, lost and unplaced data.
    fn counters(&self) -> Vec<Counter> {
        let mut counters = match &self.reader {
            Reader::Samples(samples) => samples.counters(),
            Reader::Flows(flows) => flows.counters(),
        };
        counters.push(("cut_datagrams", self.cut as f64));
        counters.push(("blank_files", self.blank as f64));
        counters
    }
}
