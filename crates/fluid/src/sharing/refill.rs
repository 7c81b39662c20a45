//! Max-min fairness from nothing: progressive filling over all flows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Index, Level, Sharing};

impl Sharing {
    /// Finds holders and levels anew, whatever they were: the link with the least fair share fixes its flows, then the
    /// next (Bertsekas and Gallager, 6.5.2).
    pub(super) fn refill(&mut self) {
        self.queue.clear();
        self.queued.fill(false);
        let active: Vec<u32> = (0..self.flows.len() as u32)
            .filter(|&slot| self.flows[slot as usize].is_active())
            .collect();
        let fixed = self.fill(&active);

        for link in 0..self.links.len() as Index {
            if self.crossings.is_busy(link) {
                self.sync(link);
            }
        }
        for &slot in &active {
            self.detach(slot);
        }
        for (&slot, (holder, level)) in active.iter().zip(fixed) {
            self.level[holder as usize] = level;
            self.attach(slot, holder);
        }
        for link in 0..self.links.len() as Index {
            // Sets the limits of the links with room; the others are level already.
            if !self.crossings.is_busy(link) {
                self.evaluate(link);
            }
        }
    }

    /// The holder and level of each flow.
    fn fill(&self, active: &[u32]) -> Vec<(Index, f64)> {
        let mut room = self.rate.clone();
        let mut open: Vec<(usize, f64)> = vec![(0, 0.0); room.len()];
        let mut on: Vec<Vec<usize>> = vec![Vec::new(); room.len()];
        for (number, &slot) in active.iter().enumerate() {
            let flow = &self.flows[slot as usize];
            for &link in &flow.path {
                open[link as usize].0 += 1;
                open[link as usize].1 += flow.weight;
                on[link as usize].push(number);
            }
        }
        let mut fixed = vec![(Index::MAX, 0.0); active.len()];
        let share = |room: f64, open: (usize, f64)| room.max(0.0) / open.1;
        let mut queue: BinaryHeap<_> = (0..room.len())
            .filter(|&link| open[link].0 > 0)
            .map(|link| Reverse((Level(share(room[link], open[link])), link)))
            .collect();
        while let Some(Reverse((Level(then), link))) = queue.pop() {
            if open[link].0 == 0 {
                continue;
            }
            let level = share(room[link], open[link]);
            if level > then {
                queue.push(Reverse((Level(level), link)));
                continue;
            }
            for number in std::mem::take(&mut on[link]) {
                if fixed[number].0 != Index::MAX {
                    continue;
                }
                fixed[number] = (link as Index, level);
                let flow = &self.flows[active[number] as usize];
                for &crossed in &flow.path {
                    let crossed = crossed as usize;
                    room[crossed] -= flow.weight * level;
                    open[crossed].0 -= 1;
                    open[crossed].1 -= flow.weight;
                }
            }
        }
        fixed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sharing::Slot;

    /// Five links, full of ties.
    const RATES: [f64; 5] = [6.0, 6.0, 4.0, 4.0, 9.0];

    fn rates(sharing: &Sharing, slots: &[Slot]) -> Vec<f64> {
        slots.iter().map(|&slot| sharing.flow_rate(slot)).collect()
    }

    proptest! {
        #[test]
        fn finds_what_small_steps_find(
            steps in prop::collection::vec((prop::sample::subsequence(vec![0, 1, 2, 3, 4], 1..=4), 1_u8..4, any::<u16>()), 1..60),
        ) {
            let (mut one, mut other) = (Sharing::default(), Sharing::default());
            for rate in RATES {
                one.add_link(rate);
                other.add_link(rate);
            }
            let mut slots: Vec<Slot> = Vec::new();
            for (step, (path, weight, choice)) in steps.into_iter().enumerate() {
                for sharing in [&mut one, &mut other] {
                    sharing.advance(step as f64 * 1e-3);
                }
                if choice % 3 == 0 && !slots.is_empty() {
                    let slot = slots.swap_remove(choice as usize % slots.len());
                    one.stop(slot);
                    other.stop(slot);
                } else {
                    let slot = one.start(&path, f64::from(weight), 1e9, 0);
                    prop_assert_eq!(other.start(&path, f64::from(weight), 1e9, 0), slot);
                    slots.push(slot);
                }
                one.settle();
                if choice % 2 == 0 {
                    other.refill();
                }
                other.settle();
                for (a, b) in rates(&one, &slots).into_iter().zip(rates(&other, &slots)) {
                    prop_assert!((a - b).abs() <= 1e-9 * a, "{a} is not {b}");
                }
            }
            for (a, b) in one.carried().into_iter().zip(other.carried()) {
                prop_assert!((a - b).abs() <= 1e-9 * a, "{a} is not {b}");
            }
            let (a, b) = (one.next_s(), other.next_s());
            prop_assert!(a.zip(b).is_none_or(|(a, b)| (a - b).abs() <= 1e-9 * a), "{a:?} is not {b:?}");
        }
    }
}
