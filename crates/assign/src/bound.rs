//! A proven lower bound on the completion time: the star-knapsack bound.
//!
//! Look at one task and the tasks it sends to. On a host `m`, those that fit beside it receive for free; the rest of
//! its bytes must leave `m`, and no faster than `m` can send at all. How much can stay is a knapsack problem, and its
//! fractional relaxation never stays below the truth. The host that is best for the task bounds the task, the worst
//! task bounds the phase, and the phases add up. The same holds for what a task receives.
//!
//! The linear relaxation of the placement program says nothing here: spreading each task evenly over all hosts costs
//! it no time at all.

use std::cmp::Reverse;

use gavotte_net::{BitsPerSec, Sharing};

use crate::completion::seconds;
use crate::cores::Cores;
use crate::problem::Problem;
use crate::room::Room;

/// A task that another one exchanges bytes with, and how many.
type Neighbour = (usize, u64);

impl Problem {
    /// No assignment completes sooner than this, in seconds. Infinite if a task fits on no host.
    ///
    /// Takes time in proportion to hosts x transfers.
    pub fn bound_s(&self) -> f64 {
        self.phase_bounds_s().iter().sum()
    }

    /// For each phase, what no assignment needs less than.
    pub(crate) fn phase_bounds_s(&self) -> Vec<f64> {
        let (leave_bps, enter_bps) = (self.most(Direction::Out), self.most(Direction::In));
        let mates: Vec<Option<Mates>> = (0..self.capacity.len()).map(|host| self.mates(host)).collect();
        let empty = Room::new(self);
        let phase_s = |transfers: &[usize]| {
            let out = self.neighbours(transfers, Direction::Out);
            let into = self.neighbours(transfers, Direction::In);
            let mut worst_s = 0.0;
            for task in 0..self.tasks.len() {
                let mut least_s = f64::INFINITY;
                for host in (0..self.capacity.len()).filter(|&host| empty.fits(task, host)) {
                    let out_s = time(self.must_move(&empty, task, host, &out[task]), leave_bps[host]);
                    let in_s = time(self.must_move(&empty, task, host, &into[task]), enter_bps[host]);
                    // What leaves its machine passes its own caps, past which it reaches the others there.
                    let beyond_s = mates[host].as_ref().map_or(0.0, |mates| {
                        let out_s = time(self.must_leave(mates.nano_cores, task, &out[task]), mates.leave_bps);
                        out_s.max(time(
                            self.must_leave(mates.nano_cores, task, &into[task]),
                            mates.enter_bps,
                        ))
                    });
                    least_s = out_s.max(in_s).max(beyond_s).min(least_s);
                    if least_s <= worst_s {
                        break;
                    }
                }
                worst_s = least_s.max(worst_s);
            }
            worst_s
        };
        self.phases
            .iter()
            .map(|(_, range)| phase_s(&self.by_phase[range.clone()]))
            .collect()
    }

    /// The bytes that `task` on `host` cannot exchange within it, at least.
    fn must_move(&self, empty: &Room, task: usize, host: usize, neighbours: &[Neighbour]) -> u64 {
        let capacity = Cores::offered(self.capacity[host].cpus).nanos();
        let mut free = u128::from(capacity - self.cores[task].nanos());
        let mut moved = 0;
        for &(other, bytes) in neighbours {
            if !empty.fits_both(task, other, host) || self.units.kept_apart(task, other) {
                moved += bytes;
                continue;
            }
            let need = u128::from(self.cores[other].nanos());
            if need <= free {
                free -= need;
            } else {
                // What stays is at most `bytes * free / need`; bytes are whole, so rounding down keeps that true.
                let stays = u128::from(bytes) * free / need;
                moved += bytes - stays as u64;
                free = 0;
            }
        }
        moved
    }

    /// The bytes that `task` cannot exchange within a machine of so many nano-cores, at least.
    fn must_leave(&self, nano_cores: u64, task: usize, neighbours: &[Neighbour]) -> u64 {
        let mut free = u128::from(nano_cores.saturating_sub(self.cores[task].nanos()));
        let mut moved = 0;
        for &(other, bytes) in neighbours {
            let need = u128::from(self.cores[other].nanos());
            if need <= free {
                free -= need;
            } else {
                moved += bytes - (u128::from(bytes) * free / need) as u64;
                free = 0;
            }
        }
        moved
    }

    /// For each host, what units on it can exchange with others at most.
    pub fn offers(&self) -> Vec<HostOffer> {
        let offer = |host: usize| {
            let most = |direction| self.most_of(&[host], direction);
            let nano_cores = Cores::offered(self.capacity[host].cpus).nanos();
            HostOffer {
                nano_cores,
                leave_bps: most(Direction::Out),
                enter_bps: most(Direction::In),
                machine: self.mates(host),
            }
        };
        (0..self.capacity.len()).map(offer).collect()
    }

    /// The machine of a host that has others beside it there which it reaches past its caps.
    fn mates(&self, host: usize) -> Option<Mates> {
        if self.network.sharing() == Sharing::Pipe || self.network.colocated_count(host) < 2 {
            return None;
        }
        let together = (0..self.capacity.len()).filter(|&other| self.network.colocated(host, other));
        let together: Vec<usize> = together.collect();
        let offered = |&host: &usize| Cores::offered(self.capacity[host].cpus).nanos();
        let beyond = |direction, cap: BitsPerSec| cap.bps().min(self.reach_of(host, &together, direction).1);
        let known = &self.network.hosts()[host];
        Some(Mates {
            nano_cores: together.iter().map(offered).fold(0, u64::saturating_add),
            leave_bps: beyond(Direction::Out, known.egress),
            enter_bps: beyond(Direction::In, known.ingress),
        })
    }

    /// For each task, whom it exchanges bytes with in one direction, most bytes per core first.
    fn neighbours(&self, transfers: &[usize], direction: Direction) -> Vec<Vec<Neighbour>> {
        let mut lists: Vec<Vec<Neighbour>> = vec![Vec::new(); self.tasks.len()];
        for &t in transfers {
            let transfer = self.transfers[t];
            let (task, other) = match direction {
                Direction::Out => (transfer.source, transfer.target),
                Direction::In => (transfer.target, transfer.source),
            };
            lists[task].push((other, transfer.bytes));
        }
        for list in &mut lists {
            list.sort_unstable();
            list.dedup_by(|next, first| {
                let same = next.0 == first.0;
                first.1 += if same { next.1 } else { 0 };
                same
            });
            list.sort_by(|&(one, bytes_one), &(other, bytes_other)| {
                let (need_one, need_other) = (self.cores[one].nanos(), self.cores[other].nanos());
                let gain = |bytes: u64, need: u64| u128::from(bytes) * u128::from(need);
                Reverse(gain(bytes_one, need_other)).cmp(&Reverse(gain(bytes_other, need_one)))
            });
        }
        lists
    }

    /// For each host, the most it can send or receive over all its links together, in bit/s.
    fn most(&self, direction: Direction) -> Vec<f64> {
        (0..self.capacity.len())
            .map(|m| self.most_of(&[m], direction))
            .collect()
    }

    /// The most that some hosts together can send to all others, or receive from them, in bit/s.
    pub(crate) fn most_of(&self, hosts: &[usize], direction: Direction) -> f64 {
        let most_of = |&m: &usize| {
            let (near, far) = self.reach_of(m, hosts, direction);
            let cap = match (self.network.sharing(), direction) {
                (Sharing::Pipe, _) => BitsPerSec::UNLIMITED,
                (_, Direction::Out) => self.network.hosts()[m].egress,
                (_, Direction::In) => self.network.hosts()[m].ingress,
            };
            near + cap.bps().min(far)
        };
        hosts.iter().map(most_of).sum()
    }

    /// The rates of all pairs of `m` with hosts that are not among `hosts`, in bit/s: within its machine and beyond.
    fn reach_of(&self, m: usize, hosts: &[usize], direction: Direction) -> (f64, f64) {
        if !self.network.paired() {
            let mates = hosts.iter().filter(|&&n| self.network.colocated(m, n)).count();
            let together = self.network.colocated_count(m);
            let any = |count: usize| if count > 0 { f64::INFINITY } else { 0.0 };
            return (
                any(together - mates),
                any(self.capacity.len() - together - (hosts.len() - mates)),
            );
        }
        let (mut near, mut far) = (0.0, 0.0);
        for n in (0..self.capacity.len()).filter(|n| !hosts.contains(n)) {
            let pair = match direction {
                Direction::Out => self.network.pair_rate(m, n),
                Direction::In => self.network.pair_rate(n, m),
            };
            let sum = if self.network.colocated(m, n) {
                &mut near
            } else {
                &mut far
            };
            *sum += pair.bps();
        }
        (near, far)
    }
}

/// What a host holds, and what it can send and receive.
#[derive(Clone, Copy, Debug)]
pub struct HostOffer {
    /// Its cores.
    pub nano_cores: u64,
    /// To all other hosts together, bit/s.
    pub leave_bps: f64,
    /// From all other hosts together, bit/s.
    pub enter_bps: f64,
    /// What it shares with others there, if it reaches them past its caps.
    pub machine: Option<Mates>,
}

/// What a host and those on its machine hold, and what it can send to and receive from other machines.
#[derive(Clone, Copy, Debug)]
pub struct Mates {
    /// Of all of them together.
    pub nano_cores: u64,
    /// From the host to other machines, bit/s.
    pub leave_bps: f64,
    /// From other machines to the host, bit/s.
    pub enter_bps: f64,
}

/// Whether a host sends or receives.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    Out,
    In,
}

/// Like [`seconds`], but nothing to move takes no time even where nothing can move.
fn time(bytes: u64, rate_bps: f64) -> f64 {
    if bytes == 0 { 0.0 } else { seconds(bytes, rate_bps) }
}
