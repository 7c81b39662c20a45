//! The steepest descent at the slowest link, for problems too large to try every move.

use gavotte_net::Link;
use rand::RngExt;

use crate::search::anneal::Chain;

/// Hosts that a unit may move to in addition to those of its partners: from the slowest link, and to break no rule.
const FAR_HOSTS: usize = 6;
const FREE_HOSTS: usize = 24;

/// The smallest improvement that counts, as a share.
const LEAST: f64 = 1e-9;

impl Chain<'_> {
    /// Makes the best move of a unit at the slowest link, as long as one shortens it and leaves all other links faster.
    ///
    /// A unit moves to the host of a partner or to a few others, or changes places with a unit there. Ends after `most`
    /// attempts, and returns their number.
    pub(crate) fn descend(&mut self, most: u64, over: &dyn Fn() -> bool) -> u64 {
        let mut tried = 0;
        // The descent looks at links, and breaks no further rules, but it does not know the price of hosts and bytes.
        if self.problem().rules.max_price.is_some() {
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
        if self.total_s() > self.best().1 {
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
        let penalty_s = self.packing.penalty_s();
        for &from in hosts {
            for unit in self.packing.on(from).to_vec() {
                for to in self.targets(unit, from, FAR_HOSTS) {
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
                        let dearer = self.packing.penalty_s() > penalty_s;
                        let longest = self.loads.longest_changed(seconds).filter(|_| !dearer);
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

    /// Moves each unit that breaks a rule with a price, alone or in exchange for another, where that lowers the cost most.
    /// Ends when no move helps or after `most` attempts.
    ///
    /// Annealing leaves many rules broken whose prices are small next to its temperature, but not all together.
    pub(crate) fn keep_rules(&mut self, most: u64, over: &dyn Fn() -> bool) {
        let (mut tried, mut helped) = (0, self.problem().rules.priced());
        while helped {
            helped = false;
            for unit in self.packing.breaking() {
                if tried >= most || over() {
                    break;
                }
                let from = self.packing.host_of(unit);
                let mut best: (f64, Option<Vec<(usize, usize)>>) = (self.cost() * (1.0 - LEAST), None);
                for to in self.targets(unit, from, FREE_HOSTS) {
                    let others = self.packing.on(to).to_vec();
                    let swaps = others.into_iter().map(|other| vec![(unit, to), (other, from)]);
                    for moves in std::iter::once(vec![(unit, to)]).chain(swaps) {
                        self.moves = moves;
                        tried += 1;
                        if !self.pack() {
                            continue;
                        }
                        self.follow();
                        let cost = self.cost();
                        self.undo();
                        if cost < best.0 {
                            best = (cost, Some(self.moves.clone()));
                        }
                    }
                }
                if let Some(moves) = best.1 {
                    self.moves = moves;
                    if self.pack() {
                        self.follow();
                        helped = true;
                    }
                }
            }
        }
        self.remember();
    }

    /// The hosts of a unit's partners, and this many others.
    fn targets(&mut self, unit: usize, from: usize, others: usize) -> Vec<usize> {
        let partners = self.packing.units.halves[unit].iter();
        let mut hosts: Vec<usize> = partners.map(|half| self.packing.host_of(half.other)).collect();
        let count = self.problem().capacity.len();
        hosts.extend((0..others).map(|_| self.proposals.rng.random_range(0..count)));
        hosts.sort_unstable();
        hosts.dedup();
        hosts.retain(|&host| host != from);
        hosts
    }
}
