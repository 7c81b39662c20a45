//! The messages of a schedule and their dependencies, and the duration of the schedule when messages share links.
//!
//! Every message is a flow of the fluid model. It starts when its sender has finished the message before and has the
//! data to send. If no two messages share a link, the result equals that of the evaluators [`crate::time`] and
//! [`crate::ring_time`].

use gavotte_fluid::{Flows, LinkId, Order, Platform, Workload, simulate};

use crate::error::TreeError;
use crate::operation::TreeOperation;
use crate::ranks::Ranks;
use crate::ring::{Ring, RingOperation};
use crate::tree::Tree;
use gavotte_net::{Seconds, Volume};

/// Processor time of the root for each further message that it sends at the same time. With many small messages, this
/// time dominates.
const MESSAGE_S: f64 = 20e-6;

/// Messages, identified by number, and the messages that each one waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    source: Vec<u32>,
    target: Vec<u32>,
    bytes: Vec<f64>,
    start_s: Vec<f64>,
    waits: Vec<(u32, u32)>,
    /// For each rank, the message that it sent last.
    last: Vec<Option<u32>>,
}

/// The duration of a script, and the link that limited its last message.
#[derive(Clone, Debug)]
pub(crate) struct Priced {
    pub(crate) seconds: f64,
    pub(crate) holder: Option<LinkId>,
}

impl Script {
    fn new(ranks: usize) -> Self {
        Self {
            last: vec![None; ranks],
            ..Self::default()
        }
    }

    /// A message that starts at a given time, independently of its sender's other messages.
    fn send_at(&mut self, Seconds(start_s): Seconds, source: usize, target: usize, Volume(bytes): Volume) -> u32 {
        let number = self.source.len() as u32;
        self.source.push(source as u32);
        self.target.push(target as u32);
        self.bytes.push(bytes);
        self.start_s.push(start_s);
        number
    }

    /// A message that its sender sends after its previous message.
    fn send(&mut self, source: usize, target: usize, bytes: Volume) -> u32 {
        let number = self.send_at(Seconds(0.0), source, target, bytes);
        if let Some(before) = self.last[source].replace(number) {
            self.waits.push((before, number));
        }
        number
    }

    /// The messages of [`crate::time`].
    pub(crate) fn of_tree(tree: &Tree, operation: TreeOperation) -> Self {
        let mut script = Self::new(tree.hosts());
        let order = tree.order();
        let mut blocks = vec![1.0; order.len()];
        if operation.scatter {
            for &host in order.iter().rev() {
                blocks[host] += tree.children(host).iter().map(|&child| blocks[child]).sum::<f64>();
            }
        }
        let pieces = operation.segments as usize;
        let piece_bytes = operation.bytes / f64::from(operation.segments);
        let mut came: Vec<Vec<u32>> = vec![Vec::new(); order.len()];
        for &host in &order {
            for piece in 0..pieces {
                let arrived = came[host].get(piece).copied();
                for (place, &child) in tree.children(host).iter().enumerate() {
                    let number = script.send(host, child, Volume(piece_bytes * blocks[child]));
                    if let (0, Some(before)) = (place, arrived) {
                        script.waits.push((before, number));
                    }
                    came[child].push(number);
                }
            }
        }
        script
    }

    /// Messages from the root to all others at the same time.
    pub(crate) fn of_flat(ranks: usize, root: usize, bytes: Volume) -> Self {
        let mut script = Self::new(ranks);
        for (place, rank) in (0..ranks).filter(|&rank| rank != root).enumerate() {
            script.send_at(Seconds(MESSAGE_S * place as f64), root, rank, bytes);
        }
        script
    }

    /// Messages, each with its start.
    pub(crate) fn of_messages(ranks: usize, messages: impl Iterator<Item = (Seconds, usize, usize, Volume)>) -> Self {
        let mut script = Self::new(ranks);
        for (start, source, target, bytes) in messages {
            script.send_at(start, source, target, bytes);
        }
        script
    }

    /// The messages of [`crate::ring_time`].
    pub(crate) fn of_ring(ring: &Ring, operation: RingOperation) -> Self {
        if operation.reduce {
            Self::of_combining(ring, operation)
        } else {
            Self::of_collecting(ring, operation)
        }
    }

    fn of_collecting(ring: &Ring, operation: RingOperation) -> Self {
        let (members, pieces) = (ring.members().len(), operation.segments as usize);
        let bytes = Volume(operation.bytes / f64::from(operation.segments));
        let mut script = Self::new(ring.hosts());
        // For each member: the blocks that it must pass on in this round, each with the message that delivered it.
        let mut held: Vec<Vec<Option<u32>>> = Vec::new();
        for (place, &member) in ring.members().iter().enumerate() {
            let mut own = vec![None; pieces];
            for &host in ring.hung(place) {
                own.extend((0..pieces).map(|_| Some(script.send(host, member, bytes))));
            }
            held.push(own);
        }
        for number in 0..members {
            let mut passed = vec![Vec::new(); members];
            for (place, &member) in ring.members().iter().enumerate() {
                let next = (place + 1) % members;
                let origin = (place + members - number) % members;
                for (at, &came) in held[place].iter().enumerate() {
                    let on = (number + 1 < members).then(|| ring.members()[next]);
                    let below = ring.hung(place).iter().enumerate();
                    let below = below.filter(|&(which, _)| origin != place || at / pieces != which + 1);
                    for (first, target) in on.into_iter().chain(below.map(|(_, &host)| host)).enumerate() {
                        let sent = script.send(member, target, bytes);
                        if first == 0 {
                            script.waits.extend(came.map(|before| (before, sent)));
                        }
                        if on == Some(target) {
                            passed[next].push(Some(sent));
                        }
                    }
                }
            }
            held = passed;
        }
        script
    }

    fn of_combining(ring: &Ring, operation: RingOperation) -> Self {
        let (members, pieces) = (ring.members().len(), operation.segments as usize);
        let bytes = Volume(operation.bytes / members as f64 / f64::from(operation.segments));
        let mut script = Self::new(ring.hosts());
        // For each member and the hosts that hang from it: the messages that bring its vector up, share by share.
        let up: Vec<Vec<Vec<u32>>> = ring
            .members()
            .iter()
            .enumerate()
            .map(|(place, &member)| {
                let vectors = ring.hung(place).iter();
                vectors
                    .map(|&host| {
                        (0..members * pieces)
                            .map(|_| script.send(host, member, bytes))
                            .collect()
                    })
                    .collect()
            })
            .collect();
        let mut held: Vec<Vec<Option<u32>>> = vec![vec![None; pieces]; members];
        for number in 0..2 * members - 1 {
            let mut passed = held.clone();
            for (place, &member) in ring.members().iter().enumerate() {
                let next = (place + 1) % members;
                for piece in 0..pieces {
                    let added = (number < members).then(|| up[place].iter().map(|each| each[number * pieces + piece]));
                    let needed: Vec<u32> = held[place][piece]
                        .into_iter()
                        .chain(added.into_iter().flatten())
                        .collect();
                    let on = (number + 2 < 2 * members).then(|| ring.members()[next]);
                    let below = if number + 1 >= members { ring.hung(place) } else { &[] };
                    for (first, target) in on.into_iter().chain(below.iter().copied()).enumerate() {
                        let sent = script.send(member, target, bytes);
                        if first == 0 {
                            script.waits.extend(needed.iter().map(|&before| (before, sent)));
                        }
                        if on == Some(target) {
                            passed[next][piece] = Some(sent);
                        }
                    }
                }
            }
            held = passed;
        }
        script
    }

    /// The reversed script: each message goes the other way, after the messages that waited for it.
    pub(crate) fn backwards(mut self) -> Self {
        std::mem::swap(&mut self.source, &mut self.target);
        for (before, after) in &mut self.waits {
            std::mem::swap(before, after);
        }
        self
    }

    /// The duration on a network.
    pub(crate) fn price(&self, ranks: &Ranks) -> Result<Priced, TreeError> {
        let fail = |error: gavotte_fluid::FluidError| TreeError::Fluid(error.to_string());
        let bytes: Vec<u64> = self.bytes.iter().map(|bytes| bytes.round() as u64).collect();
        let local_s = |at: usize| {
            let (source, target) = (self.source[at] as usize, self.target[at] as usize);
            ranks.local_s(source, target, Volume(self.bytes[at])).unwrap_or(0.0)
        };
        let startup_s: Vec<f64> = (0..bytes.len()).map(local_s).collect();
        let flows = Flows {
            source: &self.source,
            target: &self.target,
            bytes: &bytes,
            start_s: &self.start_s,
            startup_s: Some(&startup_s),
            ..Flows::default()
        };
        let order = Order::edges(bytes.len(), &self.waits).map_err(fail)?;
        let workload = Workload {
            order: Some(&order),
            ..Workload::new(flows)
        };
        let done = simulate(ranks as &dyn Platform, &workload).map_err(fail)?;
        let ends = done.finish_s.iter().enumerate();
        let last = ends.max_by(|a, b| a.1.total_cmp(b.1)).map(|(at, _)| at);
        Ok(Priced {
            seconds: done.end_s,
            holder: last.and_then(|at| done.holder[at]),
        })
    }
}
