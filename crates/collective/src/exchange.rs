//! Better mappings of tasks to hosts, one each, by exchanging two at a time.

use crate::costs::Costs;
use crate::error::TreeError;

/// Bytes from one task to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// The sending task.
    pub source: usize,
    /// The receiving task.
    pub target: usize,
    /// How much.
    pub bytes: f64,
}

/// An exchange must gain more than this share, so that rounding cannot make it go round in circles.
const LEAST_GAIN: f64 = 1e-9;

/// Exchanges tasks of the busiest host, and those that they talk to, with others or with nobody, each time the exchange
/// that makes the busiest host least busy, until none does.
///
/// A host is busy for the sum of what its task sends, one message after the other, or for that of what it receives.
/// `hosts` has the host of each task, no two the same; `most` is the number of exchanges at most.
///
/// # Errors
///
/// When a task or host does not exist, or two tasks share a host.
pub fn exchange(costs: &Costs, messages: &[Message], hosts: Vec<usize>, most: usize) -> Result<Vec<usize>, TreeError> {
    let mut state = State::new(costs, messages, hosts)?;
    for _ in 0..most {
        let (now_s, worst) = state.busiest();
        let mut best = (now_s * (1.0 - LEAST_GAIN), None);
        for mover in state.around(worst) {
            let from = state.host[mover];
            for to in (0..costs.hosts()).filter(|&to| to != from) {
                state.swap(from, to);
                // Most exchanges leave the busiest host as it is: no need to look at the others.
                if state.busy_s(worst) < best.0 {
                    let (then_s, _) = state.busiest();
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

struct State<'a> {
    costs: &'a Costs,
    messages: &'a [Message],
    /// Messages that a task sends or receives.
    of_task: Vec<Vec<usize>>,
    host: Vec<usize>,
    task: Vec<Option<usize>>,
    out_s: Vec<f64>,
    in_s: Vec<f64>,
}

impl<'a> State<'a> {
    fn new(costs: &'a Costs, messages: &'a [Message], host: Vec<usize>) -> Result<Self, TreeError> {
        let hosts = costs.hosts();
        let mut task = vec![None; hosts];
        for (each, &place) in host.iter().enumerate() {
            if place >= hosts || task[place].replace(each).is_some() {
                let why = format!("task {each} cannot have host {place}");
                return Err(TreeError::NoTree { hosts, why });
            }
        }
        let mut of_task = vec![Vec::new(); host.len()];
        for (number, message) in messages.iter().enumerate() {
            if message.source >= host.len() || message.target >= host.len() || message.source == message.target {
                let why = format!(
                    "message {number} goes from task {} to {}",
                    message.source, message.target
                );
                return Err(TreeError::NoTree { hosts, why });
            }
            of_task[message.source].push(number);
            of_task[message.target].push(number);
        }
        let (out_s, in_s) = (vec![0.0; hosts], vec![0.0; hosts]);
        let mut state = Self {
            costs,
            messages,
            of_task,
            host,
            task,
            out_s,
            in_s,
        };
        state.refresh();
        Ok(state)
    }

    /// Counts anew, so that rounding does not add up.
    fn refresh(&mut self) {
        self.out_s.fill(0.0);
        self.in_s.fill(0.0);
        for number in 0..self.messages.len() {
            self.count(number, 1.0);
        }
    }

    fn count(&mut self, number: usize, sign: f64) {
        let message = self.messages[number];
        let (from, to) = (self.host[message.source], self.host[message.target]);
        let seconds = sign * self.costs.seconds(from, to, message.bytes);
        self.out_s[from] += seconds;
        self.in_s[to] += seconds;
    }

    fn busy_s(&self, host: usize) -> f64 {
        self.out_s[host].max(self.in_s[host])
    }

    fn busiest(&self) -> (f64, usize) {
        let times = self.out_s.iter().zip(&self.in_s).map(|(out_s, in_s)| out_s.max(*in_s));
        times.enumerate().fold(
            (0.0, 0),
            |most, (host, seconds)| if seconds > most.0 { (seconds, host) } else { most },
        )
    }

    /// The task on a host and those that it talks to.
    fn around(&self, host: usize) -> Vec<usize> {
        let Some(task) = self.task[host] else { return Vec::new() };
        let talks = self.of_task[task].iter().map(|&number| self.messages[number]);
        let mut found: Vec<usize> = talks.flat_map(|message| [message.source, message.target]).collect();
        found.push(task);
        found.sort_unstable();
        found.dedup();
        found
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

    /// All messages of two tasks, those between them once.
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
