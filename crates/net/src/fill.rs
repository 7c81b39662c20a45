//! Weighted max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The total weight of a link's open flows is computed again when it falls to this share of the last sum. Subtracting
/// weights one by one would leave the rounding errors of the large ones in place of the small ones.
const STALE: f64 = 1e-4;

/// The link that limits a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// The full link on its path where no flow has a higher rate per weight.
    pub link: u32,
    /// The flow's rate for each unit of its weight.
    pub level: f64,
}

/// A link with the flows on it that are not fixed yet.
#[derive(Clone, Copy)]
struct Open {
    flows: u32,
    weight: f64,
    /// Their total weight when it was last computed.
    summed: f64,
    room: f64,
}

impl Open {
    fn level(&self) -> f64 {
        self.room.max(0.0) / self.weight
    }
}

/// The max-min fair share of each flow: the link with the smallest fair share fixes the rates of its flows, then the
/// next link.
///
/// `rates` are those of the links, in any unit. A flow is the list of links on its path, each once, with a weight above
/// zero. A flow that crosses no link is not limited.
pub fn max_min(rates: &[f64], flows: &[(&[u32], f64)]) -> Vec<Option<Held>> {
    let (first, on) = crossings(rates.len(), flows);
    let flows_on = |link: usize| &on[first[link] as usize..first[link + 1] as usize];
    let mut held: Vec<Option<Held>> = vec![None; flows.len()];
    let weight_of = |held: &[Option<Held>], link: usize| {
        let open = flows_on(link).iter().filter(|&&flow| held[flow as usize].is_none());
        open.map(|&flow| flows[flow as usize].1).sum()
    };
    let open = |link: usize| {
        let weight = weight_of(&held, link);
        Open {
            flows: flows_on(link).len() as u32,
            weight,
            summed: weight,
            room: rates[link],
        }
    };
    let mut links: Vec<Open> = (0..rates.len()).map(open).collect();
    // Smallest share first. The bit patterns of non-negative numbers have the same order as the numbers.
    let mut queue: BinaryHeap<_> = (0..links.len())
        .filter(|&link| links[link].flows > 0)
        .map(|link| Reverse((links[link].level().to_bits(), link)))
        .collect();
    let mut reached = 0.0_f64;
    while let Some(Reverse((then, link))) = queue.pop() {
        let open = &mut links[link];
        if open.flows == 0 {
            continue;
        }
        if open.weight < STALE * open.summed {
            open.weight = weight_of(&held, link);
            open.summed = open.weight;
        }
        let level = open.level();
        if level.to_bits() > then {
            queue.push(Reverse((level.to_bits(), link)));
            continue;
        }
        // Levels never fall. Where heavy flows leave a billionth of a link, rounding alone would let them: by 2e-8.
        let level = level.max(reached);
        reached = level;
        for &flow in flows_on(link) {
            let flow = flow as usize;
            if held[flow].is_some() {
                continue;
            }
            held[flow] = Some(Held {
                link: link as u32,
                level,
            });
            let (path, weight) = flows[flow];
            for &crossed in path {
                let crossed = &mut links[crossed as usize];
                crossed.room -= weight * level;
                crossed.flows -= 1;
                crossed.weight -= weight;
            }
        }
    }
    held
}

/// The flows on each link: the start of each link's part, and all parts one after the other.
fn crossings(links: usize, flows: &[(&[u32], f64)]) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0_u32; links + 2];
    for (path, _) in flows {
        path.iter().for_each(|&link| first[link as usize + 2] += 1);
    }
    for link in 0..links {
        first[link + 2] += first[link + 1];
    }
    let mut on = vec![0; first[links + 1] as usize];
    for (flow, (path, _)) in flows.iter().enumerate() {
        for &link in *path {
            let next = &mut first[link as usize + 1];
            on[*next as usize] = flow as u32;
            *next += 1;
        }
    }
    first.pop();
    (first, on)
}
