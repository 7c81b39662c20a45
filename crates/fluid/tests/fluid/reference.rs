//! A textbook solver: progressive filling from zero at every event. It is slow and simple.

use std::collections::BTreeMap;

use gavotte_fluid::{Flows, LinkId, Platform};

/// The limited links on each flow's path.
pub(crate) fn paths(platform: &dyn Platform, flows: &Flows<'_>) -> Vec<Vec<LinkId>> {
    (0..flows.len())
        .map(|flow| {
            let mut path = Vec::new();
            let label = flows.label.expect("labels")[flow];
            platform.route(
                flows.source[flow] as usize,
                flows.target[flow] as usize,
                label,
                &mut path,
            );
            path.retain(|&link| platform.rate(link).is_limited());
            path
        })
        .collect()
}

/// Max-min fair rates in bytes per second by progressive filling. It raises all rates by weight until a link is full or
/// a cap is reached, fixes the flows that this stops, and repeats.
pub(crate) fn max_min(platform: &dyn Platform, flows: &Flows<'_>, paths: &[Vec<LinkId>], active: &[usize]) -> Vec<f64> {
    let weight = |flow: usize| flows.weight.expect("weights")[flow];
    let within = |flow: usize| flows.source[flow] == flows.target[flow];
    let cap = |flow: usize| {
        if within(flow) {
            f64::INFINITY
        } else {
            flows.cap_bps.expect("caps")[flow] / 8.0
        }
    };
    let mut rates = vec![f64::NAN; flows.len()];
    loop {
        let open: Vec<usize> = active.iter().copied().filter(|&flow| rates[flow].is_nan()).collect();
        let mut links: BTreeMap<LinkId, (f64, f64)> = BTreeMap::new();
        for &flow in active {
            for &link in &paths[flow] {
                let (room, weights) = links.entry(link).or_insert((platform.rate(link).bytes_per_s(), 0.0));
                if rates[flow].is_nan() {
                    *weights += weight(flow);
                } else {
                    *room -= rates[flow];
                }
            }
        }
        let by_link = links.iter().filter(|(_, (_, weights))| *weights > 0.0);
        let levels = by_link.map(|(&link, &(room, weights))| (room.max(0.0) / weights, Some(link), None));
        let caps = open.iter().map(|&flow| (cap(flow) / weight(flow), None, Some(flow)));
        let Some((level, link, capped)) = levels.chain(caps).min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return rates;
        };
        for flow in open {
            if capped == Some(flow) || link.is_some_and(|link| paths[flow].contains(&link)) {
                rates[flow] = level * weight(flow);
            }
        }
    }
}

/// The finish time of each flow in seconds.
pub(crate) fn finish_s(platform: &dyn Platform, flows: &Flows<'_>, before: &[(u32, u32)]) -> Vec<f64> {
    let paths = paths(platform, flows);
    let mut left: Vec<f64> = flows.bytes.iter().map(|&bytes| bytes as f64).collect();
    let mut finish_s = vec![f64::NAN; flows.len()];
    let mut now_s = 0.0;
    loop {
        let done: Vec<bool> = finish_s.iter().map(|finish_s| !finish_s.is_nan()).collect();
        let ready = |flow: usize| before.iter().all(|&(a, b)| b as usize != flow || done[a as usize]);
        let waiting: Vec<usize> = (0..flows.len()).filter(|&flow| !done[flow] && ready(flow)).collect();
        if waiting.is_empty() {
            return finish_s;
        }
        let (active, later): (Vec<usize>, Vec<usize>) =
            waiting.into_iter().partition(|&flow| flows.start_s[flow] <= now_s);
        let rates = max_min(platform, flows, &paths, &active);
        let end: Vec<f64> = left
            .iter()
            .zip(&rates)
            .map(|(&left, rate)| if left > 0.0 { left / rate } else { 0.0 })
            .collect();
        let step_s = active.iter().map(|&flow| end[flow]).fold(f64::INFINITY, f64::min);
        let start_s = later
            .iter()
            .map(|&flow| flows.start_s[flow])
            .fold(f64::INFINITY, f64::min);
        let next_s = start_s.min(now_s + step_s);
        for &flow in &active {
            if end[flow] <= step_s * (1.0 + 1e-12) && now_s + step_s <= next_s {
                finish_s[flow] = now_s + step_s;
                left[flow] = 0.0;
            } else if rates[flow].is_finite() {
                left[flow] -= rates[flow] * (next_s - now_s);
            }
        }
        now_s = next_s;
    }
}
