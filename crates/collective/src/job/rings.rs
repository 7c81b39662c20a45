//! Operations round a ring, as `python/gavotte/mpi/rings.py` carries them out.

use std::collections::VecDeque;

use super::{Job, Request, pieces};
use crate::ring::{Ring, RingOperation};

impl Job {
    /// An allgather: each member passes on blocks, those of its hanging hosts too, piece by piece.
    pub(crate) fn collecting(ring: &Ring, operation: RingOperation) -> Self {
        let mut job = Self::new(ring.hosts());
        let members = ring.members();
        let sizes: Vec<u64> = pieces(operation.bytes as u64, operation.segments)
            .iter()
            .map(|(start, end)| end - start)
            .collect();
        for (place, &member) in members.iter().enumerate() {
            let before = members[(place + members.len() - 1) % members.len()];
            let after = members[(place + 1) % members.len()];
            let rounds: Vec<Vec<usize>> = (0..members.len())
                .map(|number| ring.group((place + members.len() - number) % members.len()))
                .collect();
            for &host in ring.hung(place) {
                let others = rounds.iter().flatten().filter(|&&of| of != host);
                let coming: Vec<Request> = others
                    .flat_map(|_| sizes.iter().map(|_| job.receive(host, member)).collect::<Vec<_>>())
                    .collect();
                for &bytes in &sizes {
                    job.send(host, member, bytes);
                }
                job.wait(host, &coming);
            }
            let mut coming: VecDeque<Request> = VecDeque::new();
            for (number, group) in rounds.iter().enumerate() {
                for &of in group.iter().filter(|&&of| of != member) {
                    let source = if number > 0 { before } else { of };
                    coming.extend(sizes.iter().map(|_| job.receive(member, source)).collect::<Vec<_>>());
                }
            }
            for (number, group) in rounds.iter().enumerate() {
                for &of in group {
                    for &bytes in &sizes {
                        if of != member {
                            let request = coming.pop_front();
                            job.wait(member, request.as_slice());
                        }
                        if number + 1 < members.len() {
                            job.send(member, after, bytes);
                        }
                        for &host in ring.hung(place).iter().filter(|&&host| host != of) {
                            job.send(member, host, bytes);
                        }
                    }
                }
            }
        }
        job
    }

    /// An allreduce: each share goes round to be combined, and again when it is complete.
    pub(crate) fn combining(ring: &Ring, operation: RingOperation) -> Self {
        let mut job = Self::new(ring.hosts());
        let cut = Cut::new(ring, operation);
        for place in 0..ring.members().len() {
            for &host in ring.hung(place) {
                job.hanging(host, place, ring, &cut);
            }
            job.member(place, ring, &cut);
        }
        job
    }

    /// A host that hangs from the member at a place: it sends its vector up share by share, and gets the result.
    fn hanging(&mut self, host: usize, place: usize, ring: &Ring, cut: &Cut) {
        let (member, members) = (ring.members()[place], ring.members().len());
        let mut coming = Vec::new();
        for number in members - 1..2 * members - 1 {
            for _ in cut.sizes(place, number) {
                coming.push(self.receive(host, member));
            }
        }
        for number in 0..members {
            for bytes in cut.sizes(place, number) {
                self.send(host, member, bytes);
            }
        }
        self.wait(host, &coming);
    }

    /// A member's part: messages come by round, then by piece, first from the member before, then from each hanging host.
    fn member(&mut self, place: usize, ring: &Ring, cut: &Cut) {
        let (members, hung) = (ring.members(), ring.hung(place));
        let (rank, count) = (members[place], members.len());
        let (before, after) = (members[(place + count - 1) % count], members[(place + 1) % count]);
        let mut work: VecDeque<(usize, usize)> = VecDeque::new();
        for number in 0..2 * count - 1 {
            for _ in cut.sizes(place, number) {
                work.extend((number > 0).then_some((number, before)));
                work.extend(hung.iter().filter(|_| number < count).map(|&host| (number, host)));
            }
        }
        let window = (cut.pieces + 1) * (1 + hung.len());
        let mut coming: VecDeque<Request> = VecDeque::new();
        let post =
            |job: &mut Self, coming: &mut VecDeque<Request>, work: &mut VecDeque<(usize, usize)>, number: usize| {
                while coming.len() < window
                    && let Some(&(then, source)) = work.front()
                    && then < number + count
                {
                    work.pop_front();
                    coming.push_back(job.receive(rank, source));
                }
            };
        for number in 0..2 * count - 1 {
            for bytes in cut.sizes(place, number) {
                for _ in 0..usize::from(number > 0) + if number < count { hung.len() } else { 0 } {
                    post(self, &mut coming, &mut work, number);
                    let request = coming.pop_front();
                    self.wait(rank, request.as_slice());
                    if number < count {
                        self.combine(rank, bytes);
                    }
                }
                post(self, &mut coming, &mut work, number);
                if number + 2 < 2 * count {
                    self.send(rank, after, bytes);
                }
                if number + 1 >= count {
                    for &host in hung {
                        self.send(rank, host, bytes);
                    }
                }
            }
        }
    }
}

/// The shares of a vector and their pieces.
struct Cut {
    bytes: u64,
    members: u64,
    step: u64,
    pieces: usize,
}

impl Cut {
    fn new(ring: &Ring, operation: RingOperation) -> Self {
        let (bytes, members) = (operation.bytes as u64, ring.members().len() as u64);
        let most = bytes.div_ceil(members);
        let step = most.div_ceil(u64::from(operation.segments)).max(1);
        let pieces = most.div_ceil(step) as usize;
        Self {
            bytes,
            members,
            step,
            pieces,
        }
    }

    /// The bytes of each piece that the member at a place passes on in a round.
    fn sizes(&self, place: usize, number: usize) -> Vec<u64> {
        let share = (place as u64 + 2 * self.members - number as u64) % self.members;
        let (start, end) = (
            share * self.bytes / self.members,
            (share + 1) * self.bytes / self.members,
        );
        let at = |piece: u64| (start + piece * self.step).min(end);
        (0..self.pieces as u64).map(|piece| at(piece + 1) - at(piece)).collect()
    }
}
