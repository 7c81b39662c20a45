//! The agent's log: to stderr, with the last entries in memory for callers who ask.
//!
//! `GAVOTTE_LOG` is a level, or directives: levels of targets, in the format of `tracing-subscriber`. With `GAVOTTE_LOG_FORMAT=json` each
//! entry is a JSON object on one line.

use std::collections::{HashMap, VecDeque};
use std::env;
use std::fmt::Write as _;
use std::hash::Hash;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Subscriber, error, warn};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

const LEVELS: &str = "GAVOTTE_LOG";
const FORMAT: &str = "GAVOTTE_LOG_FORMAT";
/// Levels for other crates: only warnings, and tonic's messages about connections that it could not accept.
const OTHERS: &str = "warn,tonic::transport::server=debug";
/// Number of entries kept in memory.
const KEPT: usize = 500;
/// Longest entry in bytes; the rest is cut off.
const LONGEST: usize = 4096;
/// Number of entries that one place in the code may write in a window; the log only counts further entries.
const MOST: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);

static LAST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Starts the log with the settings of the environment.
///
/// # Errors
/// If an environment variable is invalid.
pub fn start() -> io::Result<()> {
    let asked = env::var(LEVELS).unwrap_or_default();
    let levels = match asked.as_str() {
        "" => format!("{OTHERS},gavotte_agent=info"),
        level if level.chars().all(char::is_alphanumeric) => format!("{OTHERS},gavotte_agent={level}"),
        directives => directives.to_owned(),
    };
    let wrong = |name: &str, why: String| io::Error::other(format!("{name}: {why}"));
    let levels: Targets = levels
        .parse()
        .map_err(|error: ParseError| wrong(LEVELS, error.to_string()))?;
    let text = fmt::layer().with_ansi(false).with_writer(|| Entry);
    let layer = match env::var(FORMAT).unwrap_or_default().as_str() {
        "" | "text" => text.boxed(),
        "json" => text.json().flatten_event(true).with_current_span(false).boxed(),
        other => return Err(wrong(FORMAT, format!("text or json, not {other:?}"))),
    };
    tracing_subscriber::registry()
        .with(layer)
        .with(Flood::<Identifier>::default())
        .with(levels)
        .init();
    std::panic::set_hook(Box::new(|panic| error!("{panic}")));
    Ok(())
}

/// Returns the last entries, at most `most` of them, oldest first.
pub fn last(most: usize) -> Vec<String> {
    let all = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().skip(all.len().saturating_sub(most)).cloned().collect()
}

/// A writer that receives one whole entry at a time.
struct Entry;

impl Write for Entry {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let entry = clean(&String::from_utf8_lossy(bytes));
        // The reader of stderr may be gone; the error has no other place to go.
        let _ = writeln!(io::stderr(), "{entry}");
        keep(entry);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn keep(entry: String) {
    let mut all = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() == KEPT {
        all.pop_front();
    }
    all.push_back(entry);
}

/// Returns the entry on one line, with JSON's escapes instead of characters that a terminal would act on.
fn clean(entry: &str) -> String {
    let mut line = String::new();
    for each in entry.trim_end().chars() {
        if line.len() >= LONGEST {
            line.push('…');
            break;
        }
        let turns = matches!(each, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if each.is_control() || turns {
            // Writing to a String cannot fail.
            let _ = write!(line, "\\u{:04x}", u32::from(each));
        } else {
            line.push(each);
        }
    }
    line
}

/// Prevents one place in the code from filling the log.
struct Flood<K = Identifier>(Mutex<HashMap<K, Tally>>);

struct Tally {
    since: Instant,
    count: u32,
}

impl<K> Default for Flood<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Flood<K> {
    /// Returns whether an entry may pass, and how many entries were dropped in the previous window.
    fn admit(&self, place: K, now: Instant) -> (bool, u32) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = places.entry(place).or_insert(Tally { since: now, count: 0 });
        let mut left_out = 0;
        if now.duration_since(tally.since) >= WINDOW {
            left_out = tally.count.saturating_sub(MOST);
            *tally = Tally { since: now, count: 0 };
        }
        tally.count = tally.count.saturating_add(1);
        (tally.count <= MOST, left_out)
    }
}

impl<S: Subscriber> Layer<S> for Flood<Identifier> {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let (passes, left_out) = self.admit(event.metadata().callsite(), Instant::now());
        if left_out > 0 {
            warn!(left_out, "entries like the next one were dropped");
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_line_of_printable_text() {
        assert_eq!(clean("a\u{1b}[2Jb\nc\u{202e}d\n"), "a\\u001b[2Jb\\u000ac\\u202ed");
        let long = clean(&"ü".repeat(LONGEST));
        assert!(long.len() <= LONGEST + 4 && long.ends_with('…'));
    }

    #[test]
    fn a_flood_is_counted_and_the_rest_of_the_log_goes_on() {
        let (flood, now) = (Flood::default(), Instant::now());
        let passed = (0..MOST + 7).filter(|_| flood.admit("here", now).0).count();
        assert_eq!(passed, MOST as usize);
        assert_eq!(flood.admit("there", now), (true, 0));
        assert_eq!(flood.admit("here", now + WINDOW), (true, 7));
        assert_eq!(flood.admit("here", now + WINDOW), (true, 0));
    }

    #[test]
    fn the_oldest_entries_are_forgotten() {
        for number in 0..KEPT + 3 {
            keep(format!("entry {number}"));
        }
        assert_eq!(last(usize::MAX).len(), KEPT);
        assert_eq!(last(2), [format!("entry {}", KEPT + 1), format!("entry {}", KEPT + 2)]);
    }
}
