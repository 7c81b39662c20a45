//! Flow lists and finish times as CSV: reads `id,source,target,bytes,start_s`, writes `id,finish_s`.

use std::collections::{HashMap, HashSet};
use std::io;

use csv::{ReaderBuilder, StringRecord, Trim};

use crate::error::FluidError;
use crate::switches::mix;
use crate::workload::Flows;

/// The columns of a flow list, each with its accepted names.
const COLUMNS: [(&str, &[&str]); 5] = [
    ("id", &["id"]),
    ("source", &["source", "src"]),
    ("target", &["target", "dst"]),
    ("bytes", &["bytes"]),
    ("start_s", &["start_s"]),
];

/// Optional columns.
const OPTIONAL: [&str; 4] = ["weight", "cap_bps", "startup_s", "udp"];

/// A flow list, in columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowTable {
    /// The unique names of the flows.
    pub id: Vec<Box<str>>,
    /// The sending host.
    pub source: Vec<u32>,
    /// The receiving host.
    pub target: Vec<u32>,
    /// The bytes of each flow.
    pub bytes: Vec<u64>,
    /// Earliest start, in seconds from 0.
    pub start_s: Vec<f64>,
    /// Weight, if the list has it.
    pub weight: Option<Vec<f64>>,
    /// Cap in bit/s, if the list has it; an empty field or 0 means no cap.
    pub cap_bps: Option<Vec<f64>>,
    /// Start-up time in addition to the platform's latency, if the list has it.
    pub startup_s: Option<Vec<f64>>,
    /// Whether it is UDP that sends at its cap regardless of losses, if the list has it; for
    /// [`crate::simulate_guarded`].
    pub udp: Option<Vec<bool>>,
    /// Derived from the id, so that the order of lines does not affect paths.
    pub label: Vec<u64>,
}

/// The position of each column.
struct Header {
    required: [usize; 5],
    optional: [Option<usize>; 4],
}

impl FlowTable {
    /// Reads a flow list. Hosts are given by name, ignoring case, or by number from 0 unless a host has that name.
    ///
    /// The first line names the columns, in any order: `id`, `source` (or `src`), `target` (or `dst`), `bytes`,
    /// `start_s`, and optionally `weight`, `cap_bps`, `startup_s`, `udp` (0 or 1).
    ///
    /// # Errors
    /// [`FluidError::Line`] or [`FluidError::Table`] that names line, field and remedy.
    pub fn read(reader: impl io::Read, hosts: &[&str]) -> Result<Self, FluidError> {
        let numbers = hosts
            .iter()
            .enumerate()
            .map(|(n, name)| (name.to_ascii_lowercase(), n as u32))
            .collect();
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .from_reader(reader);
        let mut record = StringRecord::new();
        if !reader.read_record(&mut record).map_err(|error| broken(&error))? {
            return Err(FluidError::Table(
                "the flow list is empty; its first line is `id,source,target,bytes,start_s`".into(),
            ));
        }
        let header = Header::read(&record)?;
        let mut table = Self::default();
        let columns = [&mut table.weight, &mut table.cap_bps, &mut table.startup_s];
        for (column, at) in columns.into_iter().zip(header.optional) {
            *column = at.map(|_| Vec::new());
        }
        table.udp = header.optional[3].map(|_| Vec::new());
        while reader.read_record(&mut record).map_err(|error| broken(&error))? {
            let line = record.position().map_or(0, csv::Position::line);
            let row = Row { line, record: &record };
            table.push(&row, &header, &numbers, hosts.len())?;
        }
        table.check_ids()?;
        Ok(table)
    }

    /// The flows as the columns of a workload.
    pub fn flows(&self) -> Flows<'_> {
        Flows {
            source: &self.source,
            target: &self.target,
            bytes: &self.bytes,
            start_s: &self.start_s,
            weight: self.weight.as_deref(),
            cap_bps: self.cap_bps.as_deref(),
            startup_s: self.startup_s.as_deref(),
            label: Some(&self.label),
        }
    }

    fn push(
        &mut self,
        row: &Row<'_>,
        header: &Header,
        hosts: &HashMap<String, u32>,
        count: usize,
    ) -> Result<(), FluidError> {
        let [id, source, target, bytes, start_s] = header.required;
        let id = row.text(id, "id")?;
        self.id.push(id.into());
        self.label.push(label(id));
        self.source.push(row.host(source, "source", hosts, count)?);
        self.target.push(row.host(target, "target", hosts, count)?);
        self.bytes.push(row.bytes(bytes)?);
        self.start_s
            .push(row.number(start_s, "start_s", "seconds from 0 on", |s| {
                (0.0..f64::INFINITY).contains(&s)
            })?);
        let [weight, cap_bps, startup_s, udp] = header.optional;
        if let (Some(column), Some(at)) = (&mut self.weight, weight) {
            column.push(row.number(at, "weight", "a number from 0.001 to 1000", |w| {
                (1e-3..=1e3).contains(&w)
            })?);
        }
        if let (Some(column), Some(at)) = (&mut self.cap_bps, cap_bps) {
            let empty = row.record.get(at).is_none_or(str::is_empty);
            let cap = if empty {
                0.0
            } else {
                row.number(at, "cap_bps", "bit/s, or 0 for no cap", |c| c >= 0.0)?
            };
            column.push(if cap == 0.0 { f64::INFINITY } else { cap });
        }
        if let (Some(column), Some(at)) = (&mut self.startup_s, startup_s) {
            column.push(row.number(at, "startup_s", "seconds from 0 on", |s| {
                (0.0..f64::INFINITY).contains(&s)
            })?);
        }
        if let (Some(column), Some(at)) = (&mut self.udp, udp) {
            let number = row.number(
                at,
                "udp",
                "0, or 1 for a flow that sends at its cap whatever is lost",
                |udp| udp.fract() == 0.0 && (0.0..2.0).contains(&udp),
            )?;
            column.push(number > 0.0);
        }
        Ok(())
    }

    fn check_ids(&self) -> Result<(), FluidError> {
        let mut seen = HashSet::with_capacity(self.id.len());
        match self.id.iter().find(|id| !seen.insert(*id)) {
            Some(id) => Err(FluidError::Table(format!(
                "id: `{id}` names two flows; give each its own"
            ))),
            None => Ok(()),
        }
    }
}

impl Header {
    fn read(record: &StringRecord) -> Result<Self, FluidError> {
        let names: Vec<&str> = record.iter().map(|name| name.trim_start_matches('\u{feff}')).collect();
        let known =
            |name: &&str| COLUMNS.iter().any(|(_, spellings)| spellings.contains(name)) || OPTIONAL.contains(name);
        if let Some(name) = names.iter().find(|name| !known(name)) {
            let remedy =
                "the columns are id, source, target, bytes, start_s and, if wanted, weight, cap_bps, startup_s, udp";
            return Err(FluidError::Table(format!(
                "line 1: there is no column `{name}`; {remedy}"
            )));
        }
        let find = |spellings: &[&str]| {
            let mut places = names
                .iter()
                .enumerate()
                .filter(|(_, name)| spellings.contains(name))
                .map(|(at, _)| at);
            (places.next(), places.next())
        };
        let mut required = [0; 5];
        for (place, (column, spellings)) in required.iter_mut().zip(COLUMNS) {
            *place = match find(spellings) {
                (Some(at), None) => at,
                (None, _) => {
                    return Err(FluidError::Table(format!(
                        "line 1: the column `{column}` is missing; add it"
                    )));
                }
                (Some(_), Some(_)) => {
                    return Err(FluidError::Table(format!(
                        "line 1: the column `{column}` appears twice"
                    )));
                }
            };
        }
        Ok(Self {
            required,
            optional: OPTIONAL.map(|name| find(&[name]).0),
        })
    }
}

/// One line of the list.
struct Row<'a> {
    line: u64,
    record: &'a StringRecord,
}

impl Row<'_> {
    fn error(&self, field: &'static str, problem: String) -> FluidError {
        FluidError::Line {
            line: self.line,
            field,
            problem,
        }
    }

    fn text(&self, at: usize, field: &'static str) -> Result<&str, FluidError> {
        match self.record.get(at) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.error(field, "is missing; fill it in".into())),
        }
    }

    fn host(
        &self,
        at: usize,
        field: &'static str,
        hosts: &HashMap<String, u32>,
        count: usize,
    ) -> Result<u32, FluidError> {
        let text = self.text(at, field)?;
        let number = || text.parse().ok().filter(|&number: &u32| (number as usize) < count);
        hosts
            .get(&text.to_ascii_lowercase())
            .copied()
            .or_else(number)
            .ok_or_else(|| {
                let last = count.saturating_sub(1);
                self.error(
                    field,
                    format!("no host `{text}`; use a host of the network or a number from 0 to {last}"),
                )
            })
    }

    fn bytes(&self, at: usize) -> Result<u64, FluidError> {
        let text = self.text(at, "bytes")?;
        // Other tools write sizes as floats; whole numbers among them are accepted.
        let whole = |value: &f64| (0.0..9e15).contains(value) && value.fract() == 0.0;
        let lower = text.to_ascii_lowercase();
        let with_unit = [("kb", 1e3), ("mb", 1e6), ("gb", 1e9), ("tb", 1e12)]
            .iter()
            .find_map(|&(unit, factor)| Some((lower.strip_suffix(unit)?.trim_end(), factor)));
        let scaled = || match with_unit {
            Some((number, factor)) => number.parse().ok().map(|value: f64| (value * factor).round()),
            None => text.parse().ok(),
        };
        let float = || scaled().filter(whole).map(|value| value as u64);
        let remedy = || {
            self.error(
                "bytes",
                format!("`{text}` is not a size; write a whole number of bytes, or e.g. 5MB"),
            )
        };
        text.parse().ok().or_else(float).ok_or_else(remedy)
    }

    fn number(&self, at: usize, field: &'static str, range: &str, ok: impl Fn(f64) -> bool) -> Result<f64, FluidError> {
        let text = self.text(at, field)?;
        let remedy = || self.error(field, format!("`{text}` does not fit; write {range}"));
        text.parse().ok().filter(|&value| ok(value)).ok_or_else(remedy)
    }
}

/// Writes finish times; a flow that never finished has an empty field.
///
/// # Errors
/// The error of `writer`.
pub fn write_finish<'a>(
    writer: impl io::Write,
    rows: impl IntoIterator<Item = (&'a str, f64)>,
) -> Result<(), io::Error> {
    let mut writer = csv::Writer::from_writer(writer);
    writer.write_record(["id", "finish_s"])?;
    for (id, finish_s) in rows {
        let finish = if finish_s.is_nan() {
            String::new()
        } else {
            finish_s.to_string()
        };
        writer.write_record([id, &finish])?;
    }
    writer.flush()
}

fn broken(error: &csv::Error) -> FluidError {
    FluidError::Table(format!("the flow list is not readable CSV in UTF-8: {error}"))
}

/// The id as a number: the id itself if it is a number, otherwise its hash.
fn label(id: &str) -> u64 {
    id.parse().unwrap_or_else(|_| {
        id.bytes()
            .fold(id.len() as u64, |hash, byte| mix(hash, u64::from(byte)))
    })
}
