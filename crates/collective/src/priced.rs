//! The exact duration ("price") of schedules on a network where messages share links.

use gavotte_fluid::Platform;

use gavotte_net::{Seconds, Volume};

use crate::error::TreeError;
use crate::exchange::Message;
use crate::operation::TreeOperation;
use crate::ranks::Ranks;
use crate::ring::{Ring, RingOperation, ring_time};
use crate::ring_search::{FoundRing, ring_candidates};
use crate::script::{Priced, Script};
use crate::search::{Found, candidates};
use crate::time::time;
use crate::tree::Tree;

impl Ranks {
    /// Seconds of an operation along a tree. `back` reverses it, as for a reduction or a gather. A root that scatters
    /// whole blocks directly to all others sends them all at the same time, as MPI libraries do.
    ///
    /// # Errors
    ///
    /// The errors of [`time`].
    pub fn tree_s(&self, tree: &Tree, operation: TreeOperation, back: bool) -> Result<f64, TreeError> {
        let alone_s = time(self.costs(back), tree, operation)?;
        let operation = operation.check()?;
        let flat = operation.scatter && operation.segments == 1 && tree.children(tree.root()).len() + 1 == tree.hosts();
        if self.are_apart() && !flat {
            return Ok(alone_s);
        }
        let script = if flat {
            Script::of_flat(self.count(), tree.root(), Volume(operation.bytes))
        } else {
            Script::of_tree(tree, operation)
        };
        let script = if back { script.backwards() } else { script };
        Ok(script.price(self)?.seconds)
    }

    /// Seconds of an operation round a ring.
    ///
    /// # Errors
    ///
    /// The errors of [`ring_time`].
    pub fn ring_s(&self, ring: &Ring, operation: RingOperation) -> Result<f64, TreeError> {
        let alone_s = ring_time(self.costs(false), ring, operation)?;
        let hung = ring.members().len() < ring.hosts();
        if self.are_apart() && !(hung && self.share_caps()) {
            return Ok(alone_s);
        }
        Ok(Script::of_ring(ring, operation.check()?).price(self)?.seconds)
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
        let trees = candidates(self.costs(back), root, operation, steps, seed)?;
        let price = |tree: &Found| {
            let segments = tree.segments;
            self.tree_s(&tree.tree, TreeOperation { segments, ..operation }, back)
        };
        cheapest(trees, |tree| tree.seconds, price).map(|(seconds, tree)| Found { seconds, ..tree })
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
        cheapest(rings, |ring| ring.seconds, price).map(|(seconds, ring)| FoundRing { seconds, ..ring })
    }

    /// Seconds of messages that start at the same time, and the link that limits the last one. `start_s` has the time that
    /// each connection needs to start; messages beyond its end need none.
    ///
    /// # Errors
    ///
    /// If the fluid model refuses the messages.
    pub fn messages_s(&self, messages: &[Message], start_s: &[f64]) -> Result<(f64, String), TreeError> {
        let delays_s = start_s.iter().copied().chain(std::iter::repeat(0.0));
        let sent = messages
            .iter()
            .zip(delays_s)
            .map(|(message, delay_s)| (Seconds(delay_s), message.source, message.target, Volume(message.bytes)));
        let Priced { seconds, holder } = Script::of_messages(self.count(), sent).price(self)?;
        Ok((seconds, holder.map_or_else(String::new, |link| self.link_name(link))))
    }
}

/// The candidate with the shortest duration. Candidates whose lower bound is not shorter are not simulated.
fn cheapest<T>(
    candidates: Vec<T>,
    bound_s: impl Fn(&T) -> f64,
    price: impl Fn(&T) -> Result<f64, TreeError>,
) -> Result<(f64, T), TreeError> {
    let mut best: Option<(f64, T)> = None;
    for each in candidates {
        if best.as_ref().is_none_or(|(least_s, _)| bound_s(&each) < *least_s) {
            let seconds = price(&each)?;
            if best.as_ref().is_none_or(|(least_s, _)| seconds < *least_s) {
                best = Some((seconds, each));
            }
        }
    }
    best.ok_or(TreeError::Unreachable(0))
}
