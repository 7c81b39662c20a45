//! Properties of every allocation and every run.

use std::collections::BTreeMap;

use gavotte_fluid::{Order, Platform, Workload, rates, simulate};
use proptest::prelude::*;
use rand::seq::SliceRandom;

use crate::reference;
use crate::support::{Columns, Style, random_flows, random_topology, rng};

const HOSTS: u32 = 10;

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![Just(Style::Tied), Just(Style::Varied)]
}

fn close(a: f64, b: f64) -> bool {
    (a.is_infinite() && b.is_infinite()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
}

/// Random pairs `(a, b)` with `a < b`.
fn random_pairs(seed: u64, flows: u32) -> Vec<(u32, u32)> {
    use rand::RngExt;
    let mut rng = rng(seed ^ 0x5eed);
    let mut pair = |_| {
        let (a, b) = (rng.random_range(0..flows), rng.random_range(0..flows));
        (a.min(b), a.max(b))
    };
    (0..flows / 2).map(&mut pair).filter(|(a, b)| a < b).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rates_are_those_of_the_textbook(seed in any::<u64>(), count in 1_usize..60, style in style()) {
        let topology = random_topology(seed, style);
        let columns = random_flows(seed, count, HOSTS, style);
        let flows = columns.flows();
        let paths = reference::paths(&topology, &flows);
        let expected = reference::max_min(&topology, &flows, &paths, &(0..count).collect::<Vec<_>>());
        for (rate, expected) in rates(&topology, flows)?.into_iter().zip(expected) {
            prop_assert!(close(rate / 8.0, expected), "{rate} bit/s is not {expected} B/s");
        }
    }

    #[test]
    fn no_link_is_overfull_and_every_flow_is_among_the_fastest_on_a_full_link(
        seed in any::<u64>(), count in 1_usize..200, style in style(),
    ) {
        let topology = random_topology(seed, style);
        let columns = random_flows(seed, count, HOSTS, style);
        let flows = columns.flows();
        let paths = reference::paths(&topology, &flows);
        let rates = rates(&topology, flows)?;
        let mut used = BTreeMap::new();
        let mut fastest = BTreeMap::new();
        for (flow, path) in paths.iter().enumerate() {
            for &link in path {
                *used.entry(link).or_insert(0.0) += rates[flow];
                let level = rates[flow] / columns.weight[flow];
                let top = fastest.entry(link).or_insert(level);
                *top = level.max(*top);
            }
        }
        for (&link, &used) in &used {
            let rate = topology.rate(link).bps();
            prop_assert!(used <= rate * (1.0 + 1e-9), "{} carries {used} of {rate}", topology.link_name(link));
        }
        for (flow, path) in paths.iter().enumerate() {
            let level = rates[flow] / columns.weight[flow];
            let held_by = |link| used[link] >= topology.rate(*link).bps() * (1.0 - 1e-9) && close(fastest[link], level);
            let capped = close(rates[flow], columns.cap_bps[flow]);
            prop_assert!(capped || path.iter().any(held_by) || rates[flow].is_infinite(), "nothing holds flow {flow}");
        }
    }

    #[test]
    fn finish_times_are_those_of_the_textbook(
        seed in any::<u64>(), count in 1_usize..40, style in style(), ordered in any::<bool>(),
    ) {
        let topology = random_topology(seed, style);
        let columns = random_flows(seed, count, HOSTS, style);
        let pairs = if ordered { random_pairs(seed, count as u32) } else { Vec::new() };
        let order = Order::edges(count, &pairs)?;
        let outcome = simulate(&topology, &Workload { order: Some(&order), ..Workload::new(columns.flows()) })?;
        let expected = reference::finish_s(&topology, &columns.flows(), &pairs);
        for (flow, (&finish, expected)) in outcome.finish_s.iter().zip(expected).enumerate() {
            prop_assert!(close(finish, expected), "flow {flow} ends at {finish}, not {expected}");
        }
    }

    #[test]
    fn every_byte_crosses_every_link_on_its_way(seed in any::<u64>(), count in 1_usize..100, style in style()) {
        let topology = random_topology(seed, style);
        let columns = random_flows(seed, count, HOSTS, style);
        let outcome = simulate(&topology, &Workload::new(columns.flows()))?;
        let mut expected = BTreeMap::new();
        for (path, &bytes) in reference::paths(&topology, &columns.flows()).iter().zip(&columns.bytes) {
            for &link in path.iter().filter(|_| bytes > 0) {
                *expected.entry(link).or_insert(0) += bytes;
            }
        }
        let carried: BTreeMap<_, _> = outcome.links.iter().map(|used| (used.link, used.bytes as u64)).collect();
        prop_assert_eq!(carried, expected);
        for used in &outcome.links {
            prop_assert!(outcome.utilisation(used) <= 1.0 + 1e-9);
            prop_assert!(used.busy_s <= outcome.end_s * (1.0 + 1e-9));
        }
    }

    #[test]
    fn bytes_sent_until_an_early_end_fit_the_links(seed in any::<u64>(), until_s in 0.0..4.0_f64) {
        let topology = random_topology(seed, Style::Varied);
        let columns = random_flows(seed, 60, HOSTS, Style::Varied);
        let whole = simulate(&topology, &Workload::new(columns.flows()))?;
        let part = simulate(&topology, &Workload { until_s, ..Workload::new(columns.flows()) })?;
        for (&part, &whole) in part.finish_s.iter().zip(&whole.finish_s) {
            let right = if whole <= until_s { part.total_cmp(&whole).is_eq() } else { part.is_nan() };
            prop_assert!(right, "{part} is not {whole}");
        }
        for used in &part.links {
            let all = whole.links.iter().find(|other| other.link == used.link).expect("the same links");
            prop_assert!(used.bytes <= all.bytes * (1.0 + 1e-9));
            prop_assert!(part.utilisation(used) <= 1.0 + 1e-9);
        }
    }

    #[test]
    fn the_order_of_the_input_makes_no_difference(seed in any::<u64>(), count in 1_usize..100, style in style()) {
        let topology = random_topology(seed, style);
        let columns = random_flows(seed, count, HOSTS, style);
        let mut rows: Vec<usize> = (0..count).collect();
        rows.shuffle(&mut rng(seed));
        let shuffled: Columns = columns.permuted(&rows);
        let one = simulate(&topology, &Workload::new(columns.flows()))?;
        let other = simulate(&topology, &Workload::new(shuffled.flows()))?;
        for (place, &row) in rows.iter().enumerate() {
            prop_assert_eq!(other.finish_s[place].to_bits(), one.finish_s[row].to_bits());
        }
        prop_assert_eq!(other.links, one.links);
    }
}
