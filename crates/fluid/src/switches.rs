//! Paths through a hierarchy of switches: the only path of a tree, or equal-cost paths (ECMP) if switches have several
//! uplinks, as in leaf-spine fabrics and fat-trees.

use gavotte_net::check_index;

use crate::error::FluidError;

/// The value for no path in a table of hops.
const NONE: u8 = u8::MAX;

/// A link between a switch and the one above it.
#[derive(Clone, Copy, Debug)]
struct Uplink {
    parent: u32,
    edge: u32,
}

/// Switches and the links between them; a path goes up some links, then down.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    uplinks: Vec<Vec<Uplink>>,
    ways: Ways,
}

#[derive(Clone, Debug)]
enum Ways {
    /// At most one uplink per switch: the number of hops to the root.
    Tree { depth: Vec<u32> },
    /// Several uplinks: by lower switch x any switch, the hops up from the lower one; by target x switch, the hops of
    /// the shortest path that goes up, then down.
    Many { up: Vec<u8>, total: Vec<u8> },
}

/// One link of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    Up(u32),
    Down(u32),
}

impl Switches {
    /// Builds the hierarchy from the parents of each switch. A parent named twice is connected by two links. Links are
    /// numbered in that order.
    pub(crate) fn new(parents: &[Vec<usize>], name: impl Fn(usize) -> String) -> Result<Self, FluidError> {
        let count = parents.len();
        let mut uplinks = Vec::with_capacity(count);
        let mut edge = 0;
        for (switch, parents) in parents.iter().enumerate() {
            let mut list = Vec::with_capacity(parents.len());
            for &parent in parents {
                check_index(|| format!("the parent of switch `{}`", name(switch)), parent, count)?;
                list.push(Uplink {
                    parent: parent as u32,
                    edge,
                });
                edge += 1;
            }
            uplinks.push(list);
        }
        let top_down = top_down(&uplinks).map_err(|switch| FluidError::Circle(name(switch)))?;
        let ways = if uplinks.iter().all(|list| list.len() <= 1) {
            let mut depth = vec![0; count];
            for &switch in &top_down {
                if let Some(uplink) = uplinks[switch].first() {
                    depth[switch] = depth[uplink.parent as usize] + 1;
                }
            }
            Ways::Tree { depth }
        } else {
            many(&uplinks, &top_down)
        };
        Ok(Self { uplinks, ways })
    }

    /// Whether a path leads from `source` to `target`.
    pub(crate) fn reaches(&self, source: usize, target: usize) -> bool {
        match &self.ways {
            Ways::Tree { .. } => self.root(source) == self.root(target),
            Ways::Many { total, .. } => total[target * self.uplinks.len() + source] != NONE,
        }
    }

    /// Calls `visit` with the links of the path that `flow`, a hash, takes from `source` to `target`.
    ///
    /// PRECONDITION: there is a path.
    pub(crate) fn path(&self, source: usize, target: usize, flow: u64, mut visit: impl FnMut(Hop)) {
        match &self.ways {
            Ways::Tree { depth } => {
                let top = self.common(depth, source, target);
                self.climb(source, top, |_, list| list[0], |edge| visit(Hop::Up(edge)));
                self.descend(top, target, |_, list| list[0], visit);
            }
            Ways::Many { up, total } => {
                let count = self.uplinks.len();
                let (to_target, mut at) = (&total[target * count..][..count], source);
                while up[target * count + at] != to_target[at] {
                    let next = to_target[at] - 1;
                    let good = |uplink: &Uplink| to_target[uplink.parent as usize] == next;
                    let uplink = choose(&self.uplinks[at], good, mix(flow, at as u64));
                    visit(Hop::Up(uplink.edge));
                    at = uplink.parent as usize;
                }
                let top = at;
                let pick = |at: usize, list: &[Uplink]| {
                    let next = up[at * count + top] - 1;
                    let good = |uplink: &Uplink| up[uplink.parent as usize * count + top] == next;
                    choose(list, good, mix(!flow, at as u64))
                };
                self.descend(top, target, pick, visit);
            }
        }
    }

    /// Climbs from `at` to `top`; `pick` chooses each uplink.
    fn climb(&self, mut at: usize, top: usize, pick: impl Fn(usize, &[Uplink]) -> Uplink, mut visit: impl FnMut(u32)) {
        while at != top {
            let uplink = pick(at, &self.uplinks[at]);
            visit(uplink.edge);
            at = uplink.parent as usize;
        }
    }

    /// Descends from `top` to `target`. The path is found from below, since a switch has few uplinks and many
    /// downlinks.
    fn descend(
        &self,
        top: usize,
        target: usize,
        pick: impl Fn(usize, &[Uplink]) -> Uplink,
        mut visit: impl FnMut(Hop),
    ) {
        let mut edges = Vec::new();
        self.climb(target, top, pick, |edge| edges.push(edge));
        edges.into_iter().rev().for_each(|edge| visit(Hop::Down(edge)));
    }

    /// The lowest switch above both.
    fn common(&self, depth: &[u32], mut a: usize, mut b: usize) -> usize {
        while a != b {
            if depth[a] < depth[b] {
                std::mem::swap(&mut a, &mut b);
            }
            a = self.uplinks[a][0].parent as usize;
        }
        a
    }

    fn root(&self, mut at: usize) -> usize {
        while let Some(uplink) = self.uplinks[at].first() {
            at = uplink.parent as usize;
        }
        at
    }
}

/// All switches, each after the switches above it, or a switch on a cycle.
fn top_down(uplinks: &[Vec<Uplink>]) -> Result<Vec<usize>, usize> {
    let mut below = vec![Vec::new(); uplinks.len()];
    let mut waiting: Vec<usize> = uplinks.iter().map(Vec::len).collect();
    for (switch, list) in uplinks.iter().enumerate() {
        for uplink in list {
            below[uplink.parent as usize].push(switch);
        }
    }
    let mut order: Vec<usize> = (0..uplinks.len()).filter(|&switch| waiting[switch] == 0).collect();
    let mut done = 0;
    while done < order.len() {
        for &lower in &below[order[done]] {
            waiting[lower] -= 1;
            if waiting[lower] == 0 {
                order.push(lower);
            }
        }
        done += 1;
    }
    match waiting.iter().position(|&left| left > 0) {
        Some(switch) => Err(switch),
        None => Ok(order),
    }
}

fn many(uplinks: &[Vec<Uplink>], top_down: &[usize]) -> Ways {
    let count = uplinks.len();
    let mut up = vec![NONE; count * count];
    let mut total = vec![NONE; count * count];
    for target in 0..count {
        let up = &mut up[target * count..][..count];
        up[target] = 0;
        for &switch in top_down.iter().rev() {
            let above = one_more(up[switch]);
            for uplink in &uplinks[switch] {
                let parent = &mut up[uplink.parent as usize];
                *parent = above.min(*parent);
            }
        }
        let total = &mut total[target * count..][..count];
        for &switch in top_down {
            let over = uplinks[switch].iter().map(|uplink| total[uplink.parent as usize]).min();
            total[switch] = up[switch].min(over.map_or(NONE, one_more));
        }
    }
    Ways::Many { up, total }
}

/// Adds one hop.
fn one_more(hops: u8) -> u8 {
    hops.saturating_add(1)
}

/// The uplink that `hash` picks among the `good` ones.
fn choose(uplinks: &[Uplink], good: impl Fn(&Uplink) -> bool, hash: u64) -> Uplink {
    let count = uplinks.iter().filter(|uplink| good(uplink)).count() as u64;
    // Multiply-shift: uniform for any count.
    let nth = (u128::from(hash) * u128::from(count)) >> 64;
    *uplinks
        .iter()
        .filter(|uplink| good(uplink))
        .nth(nth as usize)
        .expect("a switch on a path leads on")
}

/// Hashes two numbers to one (the finaliser of `SplitMix64`, Steele et al., OOPSLA 2014).
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let mut z = a ^ b
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
