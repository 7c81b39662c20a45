//! The steepest descent at the slowest link, for problems too large to try every move.

use gavotte_net::Link;
use rand::RngExt;

use crate::search::anneal::Chain;

/// Hosts that a unit may move to in addition to those of its partners.
const FAR_HOSTS: usize = 6;

/// The smallest improvement that counts, as a share.
const LEAST: f64 = 1e-9;

impl Chain<'_> {
    /// Makes the best move of a unit at the slowest link, as long as one shortens it and leaves all other links faster.
    ///
    /// A unit moves to the host of a partner or to a few others, or changes places with a unit there. Ends after `most`
    /// attempts, and returns their number.
    pub(crate) fn descend(&mut self, most: u64, over: &dyn Fn() -> bool) -> u64 {
        let mut tried = 0;
        // The descent looks at links alone, not at prices.
        if self.problem().rules.max_price.is_some() || self.problem().rules.priced() {
            return tried;
        }
        while tried < most && !over() {
            let Some((seconds, hosts)) = self.slowest() else { break };
            let better = self.better(seconds, &hosts, false, &mut tried);
            let Some(moves) = better.or_else(|| self.better(seconds, &hosts, true, &mut tried)) else {
                break;
            };
            self.moves = moves;
            if !self.pack() {
                break;
            }
            self.follow();
        }
        self.remember();
        // A move that eases one phase may slow down another.
        if self.loads.seconds() > self.best().1 {
            let best = self.best().0.to_vec();
            self.restart(&best);
        }
        tried
    }

    /// The time of the slowest link of the longest phase, and the hosts at its ends. `None` for links of groups.
    fn slowest(&self) -> Option<(f64, Vec<usize>)> {
        let phases = (0..self.problem().phases.len()).map(|phase| self.loads.worst(phase));
        let (seconds, link) = phases.reduce(|worst, next| if next.0 > worst.0 { next } else { worst })?;
        match link? {
            Link::Pair { source, target } => Some((seconds, vec![source, target])),
            Link::Egress(host) | Link::Ingress(host) => Some((seconds, vec![host])),
            Link::Up(_) | Link::Down(_) => None,
        }
    }

    /// The best move of a unit on `hosts`: alone, or in exchange for another.
    fn better(
        &mut self,
        seconds: f64,
        hosts: &[usize],
        exchange: bool,
        tried: &mut u64,
    ) -> Option<Vec<(usize, usize)>> {
        let mut best: (f64, Option<Vec<(usize, usize)>>) = (seconds * (1.0 - LEAST), None);
        for &from in hosts {
            for unit in self.packing.on(from).to_vec() {
                for to in self.targets(unit, from) {
                    let others = if exchange {
                        self.packing.on(to).to_vec()
                    } else {
                        Vec::new()
                    };
                    let moves = others.into_iter().map(|other| vec![(unit, to), (other, from)]);
                    let alone = (!exchange).then(|| vec![(unit, to)]);
                    for moves in moves.chain(alone) {
                        self.moves = moves;
                        *tried += 1;
                        if !self.pack() {
                            continue;
                        }
                        self.follow();
                        let longest = self.loads.longest_changed(seconds);
                        self.undo();
                        if let Some(longest) = longest.filter(|&longest| longest < best.0) {
                            best = (longest, Some(self.moves.clone()));
                        }
                    }
                }
            }
        }
        best.1
    }

    /// The hosts of a unit's partners, and a few others.
    fn targets(&mut self, unit: usize, from: usize) -> Vec<usize> {
        let partners = self.packing.units.halves[unit].iter();
        let mut hosts: Vec<usize> = partners.map(|half| self.packing.host_of(half.other)).collect();
        let count = self.problem().capacity.len();
        hosts.extend((0..FAR_HOSTS).map(|_| self.rng.random_range(0..count)));
        hosts.sort_unstable();
        hosts.dedup();
        hosts.retain(|&host| host != from);
        hosts
    }
}
