//! Completion time: the time until the last byte of the application has crossed the network (Choreo, Appendix).

use gavotte_net::{Bandwidth, Bytes, Link};

use crate::problem::{Assignment, Problem};

/// The link that a phase waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// The link; of several equally slow ones, the first in the order of [`Link`].
    pub link: Link,
    /// The phase.
    pub phase: u32,
    /// Bytes that cross the link in that phase, including those that were already in progress.
    pub bytes: u64,
    /// The rate of the link in bit/s.
    pub rate_bps: f64,
    /// Time that these bytes take, in seconds.
    pub seconds: f64,
}

/// The completion time of an assignment and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// All phases, one after the other, in seconds.
    pub seconds: f64,
    /// The bottleneck of each phase that takes any time, in the order they run.
    pub phases: Vec<Bottleneck>,
    /// The price of all broken rules, in seconds.
    pub penalty_s: f64,
}

impl Completion {
    /// What placing minimizes: the completion time and the price of all broken rules, in seconds.
    pub fn total_s(&self) -> f64 {
        self.seconds + self.penalty_s
    }

    /// The bottleneck of the longest phase (the first such); `None` if nothing crosses a limited link.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        self.phases
            .iter()
            .copied()
            .reduce(|worst, next| if next.seconds > worst.seconds { next } else { worst })
    }
}

/// The load of one link in one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkTime {
    /// The link.
    pub link: Link,
    /// The phase.
    pub phase: u32,
    /// Bytes that the placed tasks send over it; never zero.
    pub bytes: u64,
    /// Bytes of other applications on it.
    pub load_bytes: u64,
    /// The rate of the link in bit/s.
    pub rate_bps: f64,
    /// Time that all these bytes take, in seconds.
    pub seconds: f64,
}

impl Problem {
    /// How long the transfers take under `assignment`: the sum over the phases of the longest time, `8 * bytes / rate`,
    /// that any link needs for the bytes that cross it. Bytes of [`crate::Load`] count on links that transfers use.
    ///
    /// Bytes are summed as integers, so the order of the transfers makes no difference.
    pub fn evaluate(&self, assignment: &Assignment) -> Completion {
        let phases: Vec<Bottleneck> = self.link_times(assignment).into_iter().filter_map(worst).collect();
        Completion {
            seconds: phases.iter().fold(0.0, |sum, phase| sum + phase.seconds),
            phases,
            penalty_s: self.penalty_s(assignment.hosts()),
        }
    }

    /// Every link that the transfers use, phase by phase, in the order of [`Link`].
    pub fn link_times(&self, assignment: &Assignment) -> Vec<Vec<LinkTime>> {
        let host_of = assignment.hosts();
        let mut bytes_on = vec![0_u64; self.network.link_count()];
        let mut loaded: Vec<Link> = Vec::new();
        let mut times = Vec::with_capacity(self.phases.len());
        for (position, (phase, range)) in self.phases.iter().enumerate() {
            for &t in &self.by_phase[range.clone()] {
                let transfer = self.transfers[t];
                self.network
                    .for_each_link(host_of[transfer.source], host_of[transfer.target], |link| {
                        let bytes = &mut bytes_on[self.network.link_index(link)];
                        if *bytes == 0 && transfer.bytes > 0 {
                            loaded.push(link);
                        }
                        *bytes += transfer.bytes;
                    });
            }
            loaded.sort_unstable();
            let time = |link: Link| {
                let index = self.network.link_index(link);
                let bytes = std::mem::take(&mut bytes_on[index]);
                let (load_bytes, rate_bps) = (self.base_on(position, index), self.network.rate(link).bps());
                let seconds = seconds(Bytes(bytes + load_bytes), Bandwidth(rate_bps));
                LinkTime {
                    link,
                    phase: *phase,
                    bytes,
                    load_bytes,
                    rate_bps,
                    seconds,
                }
            };
            times.push(loaded.drain(..).map(time).collect());
        }
        times
    }
}

/// The first of the slowest links, if they take any time.
fn worst(links: Vec<LinkTime>) -> Option<Bottleneck> {
    let slower = |worst: LinkTime, next: LinkTime| if next.seconds > worst.seconds { next } else { worst };
    let worst = links.into_iter().reduce(slower).filter(|worst| worst.seconds > 0.0)?;
    Some(Bottleneck {
        link: worst.link,
        phase: worst.phase,
        bytes: worst.bytes + worst.load_bytes,
        rate_bps: worst.rate_bps,
        seconds: worst.seconds,
    })
}

/// The time in seconds in which `bytes` cross a link of `rate`, which may be zero.
pub(crate) fn seconds(Bytes(bytes): Bytes, Bandwidth(rate_bps): Bandwidth) -> f64 {
    8.0 * bytes as f64 / rate_bps
}
