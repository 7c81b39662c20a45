//! Computes max-min fairness over all flows from an empty state.

use gavotte_net::max_min;

use super::{Index, Sharing};

impl Sharing {
    /// Computes all holders and levels from an empty state.
    pub(super) fn refill(&mut self) {
        self.queue.clear();
        self.queued.fill(false);
        let active: Vec<u32> = (0..self.flows.len() as u32)
            .filter(|&slot| self.flows[slot as usize].is_active())
            .collect();
        let flows: Vec<_> = active
            .iter()
            .map(|&slot| &self.flows[slot as usize])
            .map(|flow| (&flow.path[..], flow.weight))
            .collect();
        let levels = max_min(&self.rate, &flows);

        for link in 0..self.links.len() as Index {
            if self.crossings.is_busy(link) {
                self.sync(link);
            }
        }
        for &slot in &active {
            self.detach(slot);
        }
        for (&slot, held) in active.iter().zip(levels.into_iter().flatten()) {
            self.level[held.link as usize] = held.level;
            self.attach(slot, held.link);
        }
        for link in 0..self.links.len() as Index {
            // Set the limits of the links with spare capacity; the others already have their level.
            if !self.crossings.is_busy(link) {
                self.evaluate(link);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gavotte_net::{BitsPerSec, Seconds, Volume};
    use proptest::prelude::*;

    use super::*;
    use crate::sharing::Slot;

    /// Five links with many ties.
    const RATES: [f64; 5] = [6.0, 6.0, 4.0, 4.0, 9.0];

    fn bytes_per_s(rate: f64) -> BitsPerSec {
        BitsPerSec::new(8.0 * rate).unwrap()
    }

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
                one.add_link(bytes_per_s(rate));
                other.add_link(bytes_per_s(rate));
            }
            let mut slots: Vec<Slot> = Vec::new();
            for (step, (path, weight, choice)) in steps.into_iter().enumerate() {
                for sharing in [&mut one, &mut other] {
                    sharing.advance(Seconds(step as f64 * 1e-3));
                }
                if choice % 3 == 0 && !slots.is_empty() {
                    let slot = slots.swap_remove(choice as usize % slots.len());
                    one.stop(slot);
                    other.stop(slot);
                } else {
                    let slot = one.start(&path, f64::from(weight), Volume(1e9), 0);
                    prop_assert_eq!(other.start(&path, f64::from(weight), Volume(1e9), 0), slot);
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

        #[test]
        fn what_is_nearly_right_is_off_by_the_accuracy_at_most(
            accuracy in prop_oneof![Just(0.0), 1e-4_f64..0.1],
            steps in prop::collection::vec((prop::sample::subsequence(vec![0, 1, 2, 3, 4], 1..=4), 1_u8..4, any::<u16>()), 1..150),
        ) {
            let mut sharing = Sharing::new(accuracy);
            for rate in RATES {
                sharing.add_link(bytes_per_s(rate));
            }
            let mut slots: Vec<Slot> = Vec::new();
            for (step, (path, weight, choice)) in steps.into_iter().enumerate() {
                sharing.advance(Seconds(step as f64 * 1e-3));
                if choice % 3 == 0 && !slots.is_empty() {
                    sharing.stop(slots.swap_remove(choice as usize % slots.len()));
                } else {
                    slots.push(sharing.start(&path, f64::from(weight), Volume(1e9), 0));
                }
                sharing.settle();
                let (mut used, mut top) = ([0.0; 5], [0.0_f64; 5]);
                for &slot in &slots {
                    let flow = &sharing.flows[slot as usize];
                    for &link in &flow.path {
                        used[link as usize] += sharing.flow_rate(slot);
                        top[link as usize] = top[link as usize].max(sharing.level[flow.holder as usize]);
                    }
                }
                let slack = 1.0 + accuracy + 1e-9;
                for (link, &rate) in RATES.iter().enumerate() {
                    prop_assert!(used[link] <= rate * slack, "link {link} carries {} of {rate}", used[link]);
                    if sharing.crossings.is_busy(link as Index) {
                        let level = sharing.level[link];
                        prop_assert!(used[link] * slack >= rate, "link {link} is full with {} of {rate}", used[link]);
                        prop_assert!(top[link] <= level * slack * slack, "{} passes level {level}", top[link]);
                        let own = sharing.used[link] + level * sharing.weight[link];
                        prop_assert!((own - used[link]).abs() <= 1e-9 * rate, "{own} is not {}", used[link]);
                    }
                }
            }
        }
    }
}
