//! The exact duration ("price") of schedules on a network where messages share links.

use gavotte_fluid::Platform;
use gavotte_net::{Seconds, Volume};
use gavotte_replay::{Kind, Library, Model};

use crate::error::TreeError;
use crate::exchange::Message;
use crate::job::Job;
use crate::operation::TreeOperation;
use crate::ranks::{LISTED_RANKS, Ranks};
use crate::ring::{Ring, RingOperation};
use crate::ring_search::{FoundRing, ring_bound_s, ring_candidates};
use crate::script::{Priced, Script};
use crate::search::{Found, candidates};
use crate::time::time;
use crate::tree::Tree;

/// Most messages of a tree that are replayed, and least pieces: the time of further pieces is extrapolated.
const MOST_MESSAGES: u32 = 5_000;
const LEAST_PIECES: u32 = 8;

/// Most messages of a ring that are replayed. The time of more pieces is extrapolated. A ring with more messages of
/// whole blocks has the time that the search's evaluator gives.
const MOST_RING_MESSAGES: u64 = 20_000;

impl Ranks {
    /// Seconds that MPI takes for an operation along a tree. `back` reverses it, as for a reduction or a gather. A root that
    /// scatters whole blocks directly to all others sends them all at the same time, as MPI libraries do.
    ///
    /// # Errors
    ///
    /// The errors of [`time`].
    pub fn tree_s(&self, tree: &Tree, operation: TreeOperation, back: bool) -> Result<f64, TreeError> {
        let alone_s = time(self.costs(back), tree, operation)?;
        if alone_s.is_infinite() {
            return Ok(alone_s);
        }
        let operation = operation.check()?;
        let replayed_s = |segments: u32| {
            let operation = TreeOperation {
                bytes: operation.bytes * f64::from(segments) / f64::from(operation.segments),
                segments,
                ..operation
            };
            let job = match (operation.scatter, back) {
                (_, false) => Job::down(tree, operation),
                (true, true) => Job::gather(tree, operation),
                (false, true) => Job::reduce(tree, operation),
            };
            job.seconds(self, &Model::default())
        };
        let enough = (MOST_MESSAGES / tree.hosts() as u32).max(LEAST_PIECES);
        if operation.segments <= enough {
            return replayed_s(operation.segments);
        }
        // Pieces arrive at a steady pace, which the second half of the replayed ones shows.
        let (half_s, whole_s) = (replayed_s(enough / 2)?, replayed_s(enough)?);
        let pace_s = (whole_s - half_s) / f64::from(enough - enough / 2);
        Ok(whole_s + pace_s * f64::from(operation.segments - enough))
    }

    /// Seconds that MPI takes for an operation round a ring.
    ///
    /// # Errors
    ///
    /// The errors of [`crate::ring_time`].
    pub fn ring_s(&self, ring: &Ring, operation: RingOperation) -> Result<f64, TreeError> {
        let operation = operation.check()?;
        let (costs, members) = (self.costs(false), ring.members().len() as u64);
        let bound_s = |segments: u32| ring_bound_s(costs, ring, RingOperation { segments, ..operation });
        let alone_s = bound_s(operation.segments)?;
        let rounds = if operation.reduce {
            2 * members
        } else {
            ring.hosts() as u64
        };
        let enough = MOST_RING_MESSAGES / (rounds * ring.hosts() as u64);
        if alone_s.is_infinite() || enough == 0 {
            return Ok(alone_s);
        }
        let segments = operation.segments.min(enough as u32);
        let replayed = RingOperation { segments, ..operation };
        let job = if operation.reduce {
            Job::combining(ring, replayed)
        } else {
            Job::collecting(ring, replayed)
        };
        let seconds = job.seconds(self, &Model::default())?;
        if segments == operation.segments {
            return Ok(seconds);
        }
        // More pieces save what they save without sharing links.
        Ok(seconds * alone_s / bound_s(segments)?.max(f64::MIN_POSITIVE))
    }

    /// Seconds that an MPI library takes for an operation by the algorithm that it would choose. `bytes` are those of the
    /// vector, or of one block where ranks have blocks.
    ///
    /// # Errors
    ///
    /// If the root does not exist, or the replay fails.
    pub fn library_s(
        &self,
        library: Library,
        kind: Kind,
        root: usize,
        Volume(bytes): Volume,
    ) -> Result<f64, TreeError> {
        let hosts = self.count();
        if root >= hosts {
            return Err(TreeError::Root { root, hosts });
        }
        let model = Model {
            library,
            ..Model::default()
        };
        Job::of_library(hosts, kind, root, bytes as u64).seconds(self, &model)
    }

    /// Like [`crate::search`], but compares the results by their exact duration.
    ///
    /// # Errors
    ///
    /// The errors of [`crate::search`].
    pub fn search(
        &self,
        root: usize,
        operation: TreeOperation,
        back: bool,
        steps: u64,
        seed: u64,
    ) -> Result<Found, TreeError> {
        let trees = if self.count() > LISTED_RANKS {
            self.tiered_candidates(root, operation, back, steps, seed)?
        } else {
            candidates(self.costs(back), root, operation, steps, seed)?
        };
        let price = |tree: &Found| {
            let segments = tree.segments;
            self.tree_s(&tree.tree, TreeOperation { segments, ..operation }, back)
        };
        let (mut seconds, mut best) = cheapest(trees, price)?;
        // The evaluator of the search knows neither eager messages nor requests to send, so other pieces may be better.
        loop {
            let counts = [best.segments * 2, best.segments / 2];
            let allowed = counts
                .into_iter()
                .filter(|count| (1..=operation.segments).contains(count));
            let others: Vec<Found> = allowed
                .map(|segments| Found {
                    segments,
                    ..best.clone()
                })
                .collect();
            match cheapest(others, price) {
                Ok((less_s, found)) if less_s < seconds => (seconds, best) = (less_s, found),
                _ => return Ok(Found { seconds, ..best }),
            }
        }
    }

    /// Like [`crate::search_ring`], but compares the results by their exact duration.
    ///
    /// # Errors
    ///
    /// The errors of [`crate::search_ring`].
    pub fn search_ring(&self, operation: RingOperation, steps: u64, seed: u64) -> Result<FoundRing, TreeError> {
        let rings = ring_candidates(self.costs(false), operation, steps, seed)?;
        let price = |ring: &FoundRing| {
            let segments = ring.segments;
            self.ring_s(&ring.ring, RingOperation { segments, ..operation })
        };
        cheapest(rings, price).map(|(seconds, ring)| FoundRing { seconds, ..ring })
    }

    /// Seconds of messages that start at the same time, and the link that limits the last one. `start_s` has the time that
    /// each connection needs to start; messages beyond its end need none.
    ///
    /// # Errors
    ///
    /// If the fluid model refuses the messages.
    pub fn messages_s(&self, messages: &[Message], start_s: &[f64]) -> Result<(f64, String), TreeError> {
        let delays_s = start_s.iter().copied().chain(std::iter::repeat(0.0));
        let mut script = Script::default();
        for (message, delay_s) in messages.iter().zip(delays_s) {
            script.send_at(Seconds(delay_s), message.source, message.target, Volume(message.bytes));
        }
        let Priced { seconds, holder } = script.price(self)?;
        Ok((seconds, holder.map_or_else(String::new, |link| self.link_name(link))))
    }
}

/// The candidate with the shortest duration; the first of equals.
fn cheapest<T>(candidates: Vec<T>, price: impl Fn(&T) -> Result<f64, TreeError>) -> Result<(f64, T), TreeError> {
    let mut best: Option<(f64, T)> = None;
    for each in candidates {
        let seconds = price(&each)?;
        if best.as_ref().is_none_or(|(least_s, _)| seconds < *least_s) {
            best = Some((seconds, each));
        }
    }
    best.ok_or(TreeError::Unreachable(0))
}
