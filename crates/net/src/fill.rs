//! Weighted max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What holds a flow back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// The full link of its way on which no flow has more for its weight.
    pub link: u32,
    /// The flow's rate for each unit of its weight.
    pub level: f64,
}

/// The max-min fair share of each flow: the link with the least fair share fixes its flows, then the next.
///
/// `rates` are those of the links, in any unit. A flow is the links on its way, none twice, with a weight above
/// zero; nothing holds one back that crosses no link.
pub fn max_min(rates: &[f64], flows: &[(&[u32], f64)]) -> Vec<Option<Held>> {
    let mut room = rates.to_vec();
    // By link: how many of its flows are not fixed yet, and their weight.
    let mut open = vec![(0_usize, 0.0); room.len()];
    let mut on: Vec<Vec<usize>> = vec![Vec::new(); room.len()];
    for (flow, (path, weight)) in flows.iter().enumerate() {
        for &link in *path {
            open[link as usize].0 += 1;
            open[link as usize].1 += weight;
            on[link as usize].push(flow);
        }
    }
    let mut held = vec![None; flows.len()];
    let share = |room: f64, open: (usize, f64)| room.max(0.0) / open.1;
    // The least share first: as bits, numbers from zero on are in the same order.
    let mut queue: BinaryHeap<_> = (0..room.len())
        .filter(|&link| open[link].0 > 0)
        .map(|link| Reverse((share(room[link], open[link]).to_bits(), link)))
        .collect();
    while let Some(Reverse((then, link))) = queue.pop() {
        if open[link].0 == 0 {
            continue;
        }
        let level = share(room[link], open[link]);
        if level.to_bits() > then {
            queue.push(Reverse((level.to_bits(), link)));
            continue;
        }
        for flow in std::mem::take(&mut on[link]) {
            if held[flow].is_some() {
                continue;
            }
            held[flow] = Some(Held {
                link: link as u32,
                level,
            });
            let (path, weight) = flows[flow];
            for &crossed in path {
                let crossed = crossed as usize;
                room[crossed] -= weight * level;
                open[crossed].0 -= 1;
                open[crossed].1 -= weight;
            }
        }
    }
    held
}
