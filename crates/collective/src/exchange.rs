//! Improves mappings of tasks to hosts, one task per host, by exchanging two tasks at a time.

use gavotte_net::Volume;

use crate::costs::Costs;
use crate::error::TreeError;
use crate::ranks::Ranks;
use crate::shared::Shared;

/// Bytes from one task, or rank, to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// The sender.
    pub source: usize,
    /// The receiver.
    pub target: usize,
    /// The number of bytes.
    pub bytes: f64,
}

/// An exchange must gain more than this share, so that rounding errors cannot make the search cycle.
const LEAST_GAIN: f64 = 1e-9;

/// Number of tasks that an exchange tries elsewhere: those with most bytes on the link that is full for longest.
const MOST_MOVED: usize = 24;

/// Swaps or moves tasks whose messages cross the link that is full for longest, until no step shortens that time. Each
/// step is the one that shortens it most.
///
/// All messages are sent at the same time, so a link is full until all bytes have crossed it. A link is a pair, a cap
/// of a host, or a group's link. `hosts` has the host of each task, no two the same, as ranks of `ranks`; `most` is the
/// largest number of exchanges.
///
/// # Errors
///
/// If a task or host does not exist, or two tasks share a host.
pub fn exchange(ranks: &Ranks, messages: &[Message], hosts: Vec<usize>, most: usize) -> Result<Vec<usize>, TreeError> {
    let shared = ranks.shared();
    let mut state = State::new(ranks.costs(false), &shared, messages, hosts)?;
    for _ in 0..most {
        let (now_s, worst) = state.fullest();
        let mut best = (now_s * (1.0 - LEAST_GAIN), None);
        for mover in state.across(worst) {
            let from = state.host[mover];
            for to in (0..ranks.count()).filter(|&to| to != from) {
                state.swap(from, to);
                // Most exchanges do not change the fullest link, so the others need no check.
                if state.full_s(worst) < best.0 {
                    let (then_s, _) = state.fullest();
                    if then_s < best.0 {
                        best = (then_s, Some((from, to)));
                    }
                }
                state.swap(from, to);
            }
        }
        let Some((from, to)) = best.1 else { break };
        state.swap(from, to);
        state.refresh();
    }
    Ok(state.host)
}

/// A link with a long full time: a link that messages share, or the link of one message's pair.
#[derive(Clone, Copy)]
enum Full {
    Shared(usize),
    Alone(usize),
}

struct State<'a> {
    costs: &'a Costs,
    shared: &'a Shared,
    /// One message for each two tasks.
    messages: Vec<Message>,
    /// Messages that a task sends or receives.
    of_task: Vec<Vec<usize>>,
    host: Vec<usize>,
    task: Vec<Option<usize>>,
    load_s: Vec<f64>,
    alone_s: Vec<f64>,
}

impl<'a> State<'a> {
    fn new(costs: &'a Costs, shared: &'a Shared, messages: &[Message], host: Vec<usize>) -> Result<Self, TreeError> {
        let hosts = costs.hosts();
        let mut task = vec![None; hosts];
        for (each, &place) in host.iter().enumerate() {
            if place >= hosts || task[place].replace(each).is_some() {
                let why = format!("task {each} cannot have host {place}");
                return Err(TreeError::NoTree { hosts, why });
            }
        }
        for (number, message) in messages.iter().enumerate() {
            if message.source >= host.len() || message.target >= host.len() || message.source == message.target {
                let why = format!(
                    "message {number} goes from task {} to {}",
                    message.source, message.target
                );
                return Err(TreeError::NoTree { hosts, why });
            }
        }
        let messages = merged(messages);
        let mut of_task = vec![Vec::new(); host.len()];
        for (number, message) in messages.iter().enumerate() {
            of_task[message.source].push(number);
            of_task[message.target].push(number);
        }
        let mut state = Self {
            costs,
            shared,
            alone_s: vec![0.0; messages.len()],
            load_s: Vec::new(),
            messages,
            of_task,
            host,
            task,
        };
        state.refresh();
        Ok(state)
    }

    /// Recomputes the sums from zero, so that rounding errors do not accumulate.
    fn refresh(&mut self) {
        self.shared.clear(&mut self.load_s);
        for number in 0..self.messages.len() {
            self.count(number, 1.0);
        }
    }

    fn count(&mut self, number: usize, sign: f64) {
        let message = self.messages[number];
        let (from, to) = (self.host[message.source], self.host[message.target]);
        self.shared
            .count(&mut self.load_s, from, to, Volume(sign * message.bytes));
        self.alone_s[number] = self.costs.seconds(from, to, Volume(message.bytes));
    }

    fn full_s(&self, full: Full) -> f64 {
        match full {
            Full::Shared(link) => self.load_s[link],
            Full::Alone(message) => self.alone_s[message],
        }
    }

    fn fullest(&self) -> (f64, Full) {
        let most = |times: &[f64]| {
            let most =
                |most: (f64, usize), (at, &seconds): (usize, &f64)| if seconds > most.0 { (seconds, at) } else { most };
            times.iter().enumerate().fold((0.0, 0), most)
        };
        let ((shared_s, link), (alone_s, message)) = (most(&self.load_s), most(&self.alone_s));
        if shared_s >= alone_s && !self.load_s.is_empty() {
            (shared_s, Full::Shared(link))
        } else {
            (alone_s, Full::Alone(message))
        }
    }

    /// The tasks whose messages cross a link, those with most bytes on it first, up to a limit.
    fn across(&self, full: Full) -> Vec<usize> {
        let crosses = |number: usize| {
            let Message { source, target, .. } = self.messages[number];
            match full {
                Full::Shared(link) => self
                    .shared
                    .of(self.host[source], self.host[target])
                    .contains(&(link as u32)),
                Full::Alone(message) => message == number,
            }
        };
        let mut bytes = vec![0.0; self.host.len()];
        for number in (0..self.messages.len()).filter(|&number| crosses(number)) {
            bytes[self.messages[number].source] += self.messages[number].bytes;
            bytes[self.messages[number].target] += self.messages[number].bytes;
        }
        let mut largest: Vec<usize> = (0..bytes.len()).filter(|&task| bytes[task] > 0.0).collect();
        largest.sort_by(|&a, &b| bytes[b].total_cmp(&bytes[a]));
        largest.truncate(MOST_MOVED);
        largest
    }

    fn swap(&mut self, one: usize, other: usize) {
        let (a, b) = (self.task[one], self.task[other]);
        self.count_all(a, b, -1.0);
        self.task.swap(one, other);
        for (task, place) in [(a, other), (b, one)] {
            if let Some(task) = task {
                self.host[task] = place;
            }
        }
        self.count_all(a, b, 1.0);
    }

    /// Counts all messages of two tasks; messages between the two count once.
    fn count_all(&mut self, a: Option<usize>, b: Option<usize>, sign: f64) {
        for (task, counted) in [(a, None), (b, a)] {
            let Some(task) = task else { continue };
            for at in 0..self.of_task[task].len() {
                let number = self.of_task[task][at];
                let Message { source, target, .. } = self.messages[number];
                if counted.is_none_or(|counted| source != counted && target != counted) {
                    self.count(number, sign);
                }
            }
        }
    }
}

/// One message for each two tasks: all messages from one task to another share their pair.
fn merged(messages: &[Message]) -> Vec<Message> {
    let mut sorted = messages.to_vec();
    sorted.sort_by_key(|message| (message.source, message.target));
    sorted.dedup_by(|next, kept| {
        let same = (next.source, next.target) == (kept.source, kept.target);
        if same {
            kept.bytes += next.bytes;
        }
        same
    });
    sorted
}
