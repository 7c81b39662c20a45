//! A proven lower bound on the completion time: the star-knapsack bound.
//!
//! The bound follows in these steps:
//!
//! 1. Consider one task and the tasks that it sends to. On a host `m`, the tasks that fit next to it receive for free.
//! 2. The rest of its bytes must leave `m`, no faster than `m` can send. How many bytes can stay is a knapsack problem.
//!    Its fractional relaxation is never below the exact value.
//! 3. The host that is best for the task bounds the task. The worst task bounds the phase, and the phases add up.
//! 4. The same holds for the bytes that a task receives.
//!
//! The linear relaxation of the placement program gives no useful bound: spreading each task evenly over all hosts
//! takes no time at all.

use std::cmp::Reverse;

use gavotte_net::{Bandwidth, BitsPerSec, Bytes, Sharing};

use crate::packing::capacity_left::Room;
use crate::problem::Problem;
use crate::problem::completion::seconds;
use crate::problem::cores::Cores;

/// A task that another task exchanges bytes with, and the number of bytes.
type Neighbour = (usize, u64);

impl Problem {
    /// A proven lower bound on the completion time of every assignment, in seconds. Infinite if a task fits on no host.
    ///
    /// The first call takes time in proportion to hosts x transfers.
    pub fn bound_s(&self) -> f64 {
        self.phase_bounds_s().iter().sum()
    }

    /// For each phase, a proven lower bound on its time, in seconds.
    pub(crate) fn phase_bounds_s(&self) -> &[f64] {
        self.phase_bounds_s.get_or_init(|| self.star_bounds_s())
    }

    fn star_bounds_s(&self) -> Vec<f64> {
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
                    // Bytes that leave the machine pass the host's own caps. Bytes to other hosts of the machine do
                    // not.
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

    /// The fewest bytes that `task` on `host` must exchange with other hosts.
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
                // At most `bytes * free / need` bytes stay. Bytes are whole, so rounding down keeps the bound valid.
                let stays = u128::from(bytes) * free / need;
                moved += bytes - stays as u64;
                free = 0;
            }
        }
        moved
    }

    /// The fewest bytes of `task` that must leave a machine of `nano_cores`.
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

    /// For each host, the most that its units can exchange with other hosts.
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

    /// The machine of a host, if other hosts are on it too. The host reaches them without its caps.
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

    /// For each task, the tasks that it exchanges bytes with in one direction, most bytes per core first.
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

    /// The rates of all pairs of `m` with hosts that are not among `hosts`, in bit/s: within its machine, and beyond
    /// it.
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

/// A host's cores, and the rates at which it can send and receive.
#[derive(Clone, Copy, Debug)]
pub struct HostOffer {
    /// Nano-cores of the host.
    pub nano_cores: u64,
    /// Rate to all other hosts together, in bit/s.
    pub leave_bps: f64,
    /// Rate from all other hosts together, in bit/s.
    pub enter_bps: f64,
    /// The machine that it shares with other hosts, if it reaches them without its caps.
    pub machine: Option<Mates>,
}

/// The cores of a host's machine, and the rates between the host and other machines.
#[derive(Clone, Copy, Debug)]
pub struct Mates {
    /// Nano-cores of all hosts of the machine together.
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

/// Like [`seconds`], but zero bytes take no time even if nothing can move.
fn time(bytes: u64, rate_bps: f64) -> f64 {
    if bytes == 0 {
        0.0
    } else {
        seconds(Bytes(bytes), Bandwidth(rate_bps))
    }
}
