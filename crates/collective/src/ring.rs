//! Rings: the order in which hosts pass data on if every host needs the data of all hosts.

use gavotte_net::Volume;

use crate::costs::Costs;
use crate::error::TreeError;

/// Members that each send to the next, the last to the first, and hosts that hang from members.
///
/// In a plain ring every host sends all but one of the blocks, so the slowest sender sets the pace of all. A hanging
/// host sends only its own part to its member; the member sends it all other parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    members: Vec<usize>,
    /// For each member, the hosts that hang from it.
    hung: Vec<Vec<usize>>,
}

/// An operation round a ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingOperation {
    /// The block of a host (allgather), or the vector that is to be combined (allreduce).
    pub bytes: f64,
    /// Equal pieces of a block, or of a member's share of the vector; at least 1.
    pub segments: u32,
    /// Whether vectors are combined (reduce-scatter, then allgather) or blocks collected.
    pub reduce: bool,
}

impl RingOperation {
    pub(crate) fn check(self) -> Result<Self, TreeError> {
        let fine = self.bytes.is_finite() && self.bytes >= 0.0;
        let segments = self.segments.max(1);
        fine.then_some(Self { segments, ..self })
            .ok_or(TreeError::Bytes(self.bytes))
    }
}

impl Ring {
    /// A ring from its members in order and the hosts that hang from each.
    ///
    /// # Errors
    ///
    /// If there is no member, or if the lists do not contain each of hosts 0 to N - 1 once.
    pub fn new(members: Vec<usize>, hung: Vec<Vec<usize>>) -> Result<Self, TreeError> {
        let hosts = members.len() + hung.iter().map(Vec::len).sum::<usize>();
        let mut seen = vec![false; hosts];
        let all = members.iter().chain(hung.iter().flatten());
        let fresh = |&host: &usize| host < hosts && !std::mem::replace(&mut seen[host], true);
        if members.is_empty() {
            return Err(TreeError::NoHosts);
        }
        if hung.len() != members.len() || !all.into_iter().all(fresh) {
            let why = "a ring names each host once".into();
            return Err(TreeError::NoTree { hosts, why });
        }
        Ok(Self { members, hung })
    }

    /// A ring from an order that names the members first, and each other host's parent.
    ///
    /// # Errors
    ///
    /// The errors of [`Ring::new`], or if a host hangs from one that is not a member.
    pub fn from_parents(parent: &[usize], order: &[usize], members: usize) -> Result<Self, TreeError> {
        let hosts = parent.len();
        let no_ring = |why: String| TreeError::NoTree { hosts, why };
        if order.len() != hosts || members > hosts {
            return Err(no_ring(format!("the order names {} hosts", order.len())));
        }
        let (members, others) = order.split_at(members);
        let mut hung = vec![Vec::new(); members.len()];
        for &host in others {
            let above = parent
                .get(host)
                .ok_or_else(|| no_ring(format!("there is no host {host}")))?;
            let at = members.iter().position(|member| member == above);
            let at = at.ok_or_else(|| no_ring(format!("host {host} hangs from {above}, which is no member")))?;
            hung[at].push(host);
        }
        Self::new(members.to_vec(), hung)
    }

    /// The ring by rank, which ignores the network: the ring that MPI libraries use.
    ///
    /// # Errors
    ///
    /// If there are no hosts.
    pub fn by_rank(hosts: usize) -> Result<Self, TreeError> {
        Self::new((0..hosts).collect(), vec![Vec::new(); hosts])
    }

    /// The members, in ring order.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// The hosts that hang from the member at a place.
    pub fn hung(&self, place: usize) -> &[usize] {
        &self.hung[place]
    }

    /// The member at a place, and the hosts that hang from it.
    pub(crate) fn group(&self, place: usize) -> Vec<usize> {
        let hung = self.hung[place].iter();
        std::iter::once(self.members[place]).chain(hung.copied()).collect()
    }

    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        self.members.len() + self.hung.iter().map(Vec::len).sum::<usize>()
    }

    /// All hosts, the members first.
    pub fn order(&self) -> Vec<usize> {
        self.members.iter().chain(self.hung.iter().flatten()).copied().collect()
    }

    /// Each host's parent: the member before, or the one it hangs from; the first member's is itself.
    pub fn parents(&self) -> Vec<usize> {
        let mut parent = vec![self.members[0]; self.hosts()];
        for (place, (&member, hung)) in self.members.iter().zip(&self.hung).enumerate() {
            parent[member] = self.members[place.saturating_sub(1)];
            for &host in hung {
                parent[host] = member;
            }
        }
        parent
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) % self.members.len()
    }
}

/// Seconds until the last host has everything.
///
/// A host sends one message at a time, does not wait for the message's latency, and may receive at the same time.
///
/// 1. Every member sends its own block, then those of its hanging hosts, then the blocks from the previous member in
///    their order.
/// 2. Each block goes to the next member and then to each hanging host.
/// 3. If vectors are combined, member i sends share i first, and members add the shares that arrive. After all but one
///    of the rounds, each share is complete at one member. From there it goes round as a block does.
///
/// In one piece, a ring without hanging hosts takes at least N - 1 times as long as its slowest pair; twice that if it
/// combines vectors.
///
/// # Errors
///
/// If the ring and the costs have different hosts, or if the bytes are invalid.
pub fn ring_time(costs: &Costs, ring: &Ring, operation: RingOperation) -> Result<f64, TreeError> {
    let operation = operation.check()?;
    let (hosts, found) = (costs.hosts(), ring.hosts());
    if found != hosts {
        let why = format!("the ring has {found}");
        return Err(TreeError::NoTree { hosts, why });
    }
    Ok(if operation.reduce {
        combined_s(costs, ring, operation)
    } else {
        collected_s(costs, ring, operation)
    })
}

fn collected_s(costs: &Costs, ring: &Ring, operation: RingOperation) -> f64 {
    let (members, pieces) = (ring.members.len(), operation.segments as usize);
    let piece_bytes = operation.bytes / f64::from(operation.segments);
    let busy_s = |from: usize, to: usize| costs.busy_s(from, to, Volume(piece_bytes));
    // For each member: the time at which each piece that it must pass on in this round has arrived.
    let own = |place: usize| -> Vec<f64> {
        let from = ring.members[place];
        let came = |host: &usize| (costs.latency_s(*host, from), busy_s(*host, from));
        let sent_s = std::iter::once((0.0, 0.0)).chain(ring.hung[place].iter().map(came));
        sent_s
            .flat_map(|(latency_s, each_s)| (0..pieces).map(move |piece| latency_s + each_s * (piece + 1) as f64))
            .collect()
    };
    let mut arrived_s: Vec<Vec<f64>> = (0..members).map(own).collect();
    let mut free_s = vec![0.0_f64; members];
    let mut end_s = 0.0_f64;
    for number in 0..members {
        let mut passed = vec![Vec::new(); members];
        for place in 0..members {
            let (from, next) = (ring.members[place], ring.next(place));
            let origin = (place + members - number) % members;
            for (at, &came_s) in arrived_s[place].iter().enumerate() {
                let block = at / pieces;
                let mut clock_s = free_s[place].max(came_s);
                if number + 1 < members {
                    clock_s += busy_s(from, ring.members[next]);
                    passed[next].push(clock_s + costs.latency_s(from, ring.members[next]));
                    end_s = end_s.max(clock_s + costs.latency_s(from, ring.members[next]));
                }
                for (which, &host) in ring.hung[place].iter().enumerate() {
                    if origin != place || block != which + 1 {
                        clock_s += busy_s(from, host);
                        end_s = end_s.max(clock_s + costs.latency_s(from, host));
                    }
                }
                free_s[place] = clock_s;
                end_s = end_s.max(came_s);
            }
        }
        arrived_s = passed;
    }
    end_s
}

fn combined_s(costs: &Costs, ring: &Ring, operation: RingOperation) -> f64 {
    let (members, pieces) = (ring.members.len(), operation.segments as usize);
    let piece_bytes = operation.bytes / members as f64 / f64::from(operation.segments);
    let busy_s = |from: usize, to: usize| costs.busy_s(from, to, Volume(piece_bytes));
    let mut arrived_s = vec![vec![0.0_f64; pieces]; members];
    let mut free_s = vec![0.0_f64; members];
    let mut end_s = 0.0_f64;
    for number in 0..2 * members - 1 {
        let mut passed = arrived_s.clone();
        for place in 0..members {
            let (from, next) = (ring.members[place], ring.next(place));
            for piece in 0..pieces {
                let mut clock_s = free_s[place].max(arrived_s[place][piece]);
                for &host in &ring.hung[place] {
                    if number < members {
                        let sent_s = (number * pieces + piece + 1) as f64 * busy_s(host, from);
                        clock_s = clock_s.max(sent_s + costs.latency_s(host, from));
                    }
                }
                end_s = end_s.max(clock_s);
                if number + 2 < 2 * members {
                    clock_s += busy_s(from, ring.members[next]);
                    passed[next][piece] = clock_s + costs.latency_s(from, ring.members[next]);
                }
                for &host in &ring.hung[place] {
                    if number + 1 >= members {
                        clock_s += busy_s(from, host);
                        end_s = end_s.max(clock_s + costs.latency_s(from, host));
                    }
                }
                free_s[place] = clock_s;
            }
        }
        arrived_s = passed;
    }
    end_s
}
