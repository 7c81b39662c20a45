//! The table format `coflow,arrival_s,source,target,bytes`, optionally with `class`, `weight` and `deadline_s`: one flow
//! per line.

use std::io::Read;
use std::str::FromStr;

use csv::{ReaderBuilder, StringRecord, Trim};

use super::error::TraceError;
use super::listed::{Listed, Names, Trace};

const COLUMNS: [&str; 8] = [
    "coflow",
    "arrival_s",
    "source",
    "target",
    "bytes",
    "class",
    "weight",
    "deadline_s",
];
/// Units of sizes, in powers of 1000.
const UNITS: [(&str, f64); 4] = [("kb", 1e3), ("mb", 1e6), ("gb", 1e9), ("tb", 1e12)];
/// The first this many columns are required.
const NEEDED: usize = 5;

pub(super) fn read(reader: impl Read) -> Result<Trace, TraceError> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .from_reader(reader);
    let mut record = StringRecord::new();
    let mut next = move |record: &mut StringRecord| {
        reader
            .read_record(record)
            .map_err(|error| TraceError::unreadable(&error))
    };
    if !next(&mut record)? {
        let first = COLUMNS[..NEEDED].join(",");
        return Err(TraceError::Whole(format!(
            "the trace is empty; its first line must be `{first}`"
        )));
    }
    let places = places(&record)?;
    let (mut ports, mut coflows) = (Names::default(), Names::default());
    let mut trace = Trace::default();
    while next(&mut record)? {
        let row = Row {
            record: &record,
            places,
        };
        let number = coflows.number(row.text(0)?) as usize;
        let head = Listed {
            name: row.text(0)?.to_owned(),
            arrival_s: row.number(1, "seconds from 0 on", |s: f64| (0.0..=1e9).contains(&s))?,
            class: row.optional(5, 0, "a whole number, 0 for the highest", |_: u32| true)?,
            weight: row.optional(6, 1.0, "a number from 0.001 to 1000", |w: f64| {
                (1e-3..=1e3).contains(&w)
            })?,
            deadline_s: row.optional(7, f64::INFINITY, "seconds above 0", |s: f64| s > 0.0 && s <= 1e9)?,
            flows: Vec::new(),
        };
        match trace.coflows.get(number) {
            Some(known) => row.same(known, &head)?,
            None => trace.coflows.push(head),
        }
        let (source, target) = (ports.number(row.text(2)?), ports.number(row.text(3)?));
        let bytes = row.size(4)?;
        trace.coflows[number].flows.push((source, target, bytes));
    }
    trace.ports = ports.listed;
    Ok(trace.joined())
}

/// The position of each column in the header.
fn places(header: &StringRecord) -> Result<[Option<usize>; 8], TraceError> {
    let mut places = [None; 8];
    for (at, name) in header
        .iter()
        .map(|name| name.trim_start_matches('\u{feff}'))
        .enumerate()
    {
        let Some(column) = COLUMNS.iter().position(|column| *column == name) else {
            let known = COLUMNS[..NEEDED].join(", ");
            let problem = format!("there is no such column; use {known} and, optionally, class, weight and deadline_s");
            return Err(TraceError::Whole(format!("line 1: `{name}`: {problem}")));
        };
        if places[column].replace(at).is_some() {
            return Err(TraceError::field(1, COLUMNS[column], "appears twice; remove one"));
        }
    }
    match (0..NEEDED).find(|&column| places[column].is_none()) {
        Some(column) => Err(TraceError::field(1, COLUMNS[column], "is missing; add this column")),
        None => Ok(places),
    }
}

/// Reads bytes with or without a unit. `byte_matrix.py` reads lists of flows in the same way.
fn bytes_of(text: &str) -> Option<f64> {
    let start = text.len().checked_sub(2).filter(|&start| text.is_char_boundary(start));
    let (number, unit) = start.map_or((text, ""), |start| text.split_at(start));
    match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
        Some((_, bytes)) => {
            let number = number.strip_suffix(' ').unwrap_or(number);
            let decimal = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            Some(number.parse::<f64>().ok().filter(|_| decimal)? * bytes)
        }
        None => text.parse().ok(),
    }
}

struct Row<'a> {
    record: &'a StringRecord,
    places: [Option<usize>; 8],
}

impl Row<'_> {
    fn error(&self, column: usize, problem: impl Into<String>) -> TraceError {
        let line = self.record.position().map_or(0, csv::Position::line);
        TraceError::field(line, COLUMNS[column], problem)
    }

    fn filled(&self, column: usize) -> Option<&str> {
        let text = self.places[column].and_then(|at| self.record.get(at));
        text.filter(|text| !text.is_empty())
    }

    fn text(&self, column: usize) -> Result<&str, TraceError> {
        self.filled(column)
            .ok_or_else(|| self.error(column, "is missing; fill it in"))
    }

    fn number<T: FromStr + Copy>(&self, column: usize, range: &str, ok: impl Fn(T) -> bool) -> Result<T, TraceError> {
        let text = self.text(column)?;
        let wrong = || self.error(column, format!("`{text}` does not fit; write {range}"));
        text.parse().ok().filter(|&value| ok(value)).ok_or_else(wrong)
    }

    /// Bytes: a number, or one with a unit such as `5MB`.
    fn size(&self, column: usize) -> Result<f64, TraceError> {
        let text = self.text(column)?;
        let wrong = || {
            let range = "a number of bytes from 0 on, or a size such as 5MB";
            self.error(column, format!("`{text}` does not fit; write {range}"))
        };
        let bytes = bytes_of(text).ok_or_else(wrong)?;
        Some(bytes)
            .filter(|bytes| (0.0..=1e18).contains(bytes))
            .ok_or_else(wrong)
    }

    /// The number in an optional column; an empty field counts as missing.
    fn optional<T: FromStr + Copy>(
        &self,
        column: usize,
        otherwise: T,
        range: &str,
        ok: impl Fn(T) -> bool,
    ) -> Result<T, TraceError> {
        match self.filled(column) {
            Some(_) => self.number(column, range, ok),
            None => Ok(otherwise),
        }
    }

    /// Checks that this line agrees with earlier lines of the same coflow.
    fn same(&self, known: &Listed, head: &Listed) -> Result<(), TraceError> {
        let differs = [
            (1, known.arrival_s.to_bits() != head.arrival_s.to_bits()),
            (5, known.class != head.class),
            (6, known.weight.to_bits() != head.weight.to_bits()),
            (7, known.deadline_s.to_bits() != head.deadline_s.to_bits()),
        ];
        let earlier_value = |column| match column {
            1 => known.arrival_s.to_string(),
            5 => known.class.to_string(),
            6 => known.weight.to_string(),
            _ if known.deadline_s == f64::INFINITY => "none".to_owned(),
            _ => known.deadline_s.to_string(),
        };
        match differs.into_iter().find(|(_, differs)| *differs) {
            Some((column, _)) => {
                let problem = format!(
                    "an earlier line of coflow `{}` says {}; say the same on all",
                    known.name,
                    earlier_value(column)
                );
                Err(self.error(column, problem))
            }
            None => Ok(()),
        }
    }
}
