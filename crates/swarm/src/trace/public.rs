//! The format of the public coflow traces (`FB2010-1Hr-150-0.txt`).
//!
//! The first line is `ports coflows`. One line for each coflow follows: `id arrival_ms mappers port ... reducers
//! port:megabytes ...`. A megabyte is 10^6 bytes. A reducer's megabytes come from all mappers together; each mapper
//! sends an equal share.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::error::TraceError;
use super::listed::{Listed, Trace};

const MB: f64 = 1e6;

/// Largest number of flows, which takes 0.8 GB of memory; the public trace has 706,397.
const MOST_FLOWS: usize = 50_000_000;

pub(super) fn read(first: &str, reader: impl BufRead) -> Result<Trace, TraceError> {
    let mut words = Words::new(1, first);
    let ports: u32 = words.number("ports", "a number from 1 to 1000000", |n| (1..=1_000_000).contains(n))?;
    let count: usize = words.number("coflows", "a number", |_| true)?;
    words.end()?;
    let (mut coflows, mut flows) = (Vec::<Listed>::new(), 0);
    let mut names = std::collections::HashSet::new();
    for (line, number) in reader.lines().zip(2..) {
        let line = line.map_err(|error| TraceError::unreadable(&error))?;
        if line.trim().is_empty() {
            continue;
        }
        let mut words = Words::new(number, &line);
        let listed = coflow(&mut words, ports, MOST_FLOWS - flows)?;
        flows += listed.flows.len();
        if !names.insert(listed.name.clone()) {
            let problem = format!("`{}` names two coflows; give each its own", listed.name);
            return Err(TraceError::field(number, "id", problem));
        }
        coflows.push(listed);
    }
    if coflows.len() != count {
        let problem = format!("is {count}, but {} lines follow; correct it", coflows.len());
        return Err(TraceError::field(1, "coflows", problem));
    }
    let ports = (0..ports).map(|port| port.to_string()).collect();
    Ok(Trace { ports, coflows }.joined())
}

fn coflow(words: &mut Words<'_>, ports: u32, most: usize) -> Result<Listed, TraceError> {
    let range = format!("a port below {ports}");
    let name = words.next("id")?.to_owned();
    let arrival_ms = words.number("arrival", "milliseconds from 0 on", |ms: &f64| {
        (0.0..=1e12).contains(ms)
    })?;
    let mappers: usize = words.number("number of mappers", "a number", |_| true)?;
    // By port: the number of mappers, and the bytes for its reducers.
    let (mut from, mut to) = (BTreeMap::<u32, u32>::new(), BTreeMap::<u32, f64>::new());
    for _ in 0..mappers {
        let port = words.number("mapper", &range, |&port| port < ports)?;
        *from.entry(port).or_default() += 1;
    }
    let reducers: usize = words.number("number of reducers", "a number", |_| true)?;
    for _ in 0..reducers {
        let word = words.next("reducer")?;
        let parsed = word
            .split_once(':')
            .and_then(|(port, size)| Some((port.parse().ok()?, size.parse().ok()?)));
        let fits = |&(port, megabytes): &(u32, f64)| port < ports && (0.0..=1e12).contains(&megabytes);
        let remedy = || {
            words.error(
                "reducer",
                format!("`{word}` does not fit; write {range}, a colon and megabytes"),
            )
        };
        let (port, megabytes) = parsed.filter(fits).ok_or_else(remedy)?;
        *to.entry(port).or_default() += megabytes * MB;
    }
    if from.len().saturating_mul(to.len()) > most {
        let problem = format!("makes more than {MOST_FLOWS} flows in all; shorten the trace");
        return Err(words.error("number of reducers", problem));
    }
    let each = |bytes: f64, share: u32| bytes * f64::from(share) / mappers as f64;
    let pairs = from
        .iter()
        .flat_map(|(&source, &share)| to.iter().map(move |(&port, &bytes)| (source, port, each(bytes, share))));
    let flows = pairs.collect();
    words.end()?;
    Ok(Listed {
        name,
        arrival_s: arrival_ms / 1e3,
        class: 0,
        weight: 1.0,
        deadline_s: f64::INFINITY,
        flows,
    })
}

/// The words of a line.
struct Words<'a> {
    line: u64,
    words: std::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn new(line: u64, text: &'a str) -> Self {
        let words = text.split_whitespace();
        Self { line, words }
    }

    fn error(&self, field: &'static str, problem: impl Into<String>) -> TraceError {
        TraceError::field(self.line, field, problem)
    }

    fn next(&mut self, field: &'static str) -> Result<&'a str, TraceError> {
        self.words
            .next()
            .ok_or_else(|| self.error(field, "is missing; the line ends before it"))
    }

    fn number<T: std::str::FromStr>(
        &mut self,
        field: &'static str,
        range: &str,
        ok: impl Fn(&T) -> bool,
    ) -> Result<T, TraceError> {
        let word = self.next(field)?;
        let wrong = || self.error(field, format!("`{word}` does not fit; write {range}"));
        word.parse().ok().filter(ok).ok_or_else(wrong)
    }

    fn end(&mut self) -> Result<(), TraceError> {
        match self.words.next() {
            Some(word) => Err(self.error("end of line", format!("`{word}` is not expected here; remove it"))),
            None => Ok(()),
        }
    }
}
