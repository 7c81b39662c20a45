//! Collectives in which all ranks send and receive in each step.

use super::{Script, share};

impl Script<'_> {
    /// Steps in which pairs exchange, for any number of members.
    ///
    /// If it is no power of 2, the first `2 * rest` members are pairs: the even one hands its part to the odd one before, and gets
    /// the result after. Returns the own place among the active members, `None` for the others, and the number of active ones.
    fn fold(&mut self, bytes: u64, combine: bool) -> (Option<usize>, usize) {
        let active = 1 << self.size.ilog2();
        let rest = self.size - active;
        if self.me >= 2 * rest {
            return (Some(self.me - rest), active);
        }
        if self.me.is_multiple_of(2) {
            self.send(self.me + 1, bytes);
            return (None, active);
        }
        self.receive(self.me - 1);
        if combine {
            self.combine(bytes);
        }
        (Some(self.me / 2), active)
    }

    /// Ends what `fold` began: the odd member of each pair sends the result to the even one.
    fn unfold(&mut self, bytes: u64) {
        let rest = self.size - (1 << self.size.ilog2());
        if self.me >= 2 * rest {
            return;
        }
        if self.me.is_multiple_of(2) {
            self.receive(self.me + 1);
        } else {
            self.send(self.me - 1, bytes);
        }
    }

    /// The member at a place among the active ones.
    fn active(&self, place: usize) -> usize {
        let rest = self.size - (1 << self.size.ilog2());
        if place < rest { 2 * place + 1 } else { place + rest }
    }

    /// All vectors, combined, in log2 steps of the whole vector.
    pub(super) fn allreduce_doubling(&mut self, bytes: u64) {
        let (place, active) = self.fold(bytes, true);
        if let Some(place) = place {
            for bit in 0..active.ilog2() {
                let peer = self.active(place ^ (1 << bit));
                self.exchange(peer, bytes, peer);
                self.combine(bytes);
            }
        }
        self.unfold(bytes);
    }

    /// Halves, quarters and so on are combined, and then gathered in the opposite order (Rabenseifner).
    pub(super) fn allreduce_halving(&mut self, bytes: u64) {
        let place = self.fold_halves(bytes);
        if let Some((place, active)) = place {
            self.halve(place, active, bytes);
            self.unhalve(place, active, bytes);
        }
        self.unfold_even(bytes);
    }

    /// As `fold`, but both members of a pair combine one half, and the even one goes on.
    fn fold_halves(&mut self, bytes: u64) -> Option<(usize, usize)> {
        let active = 1 << self.size.ilog2();
        let rest = self.size - active;
        if self.me >= 2 * rest {
            return Some((self.me - rest, active));
        }
        let half = share(bytes, 2);
        let even = self.me.is_multiple_of(2);
        let peer = if even { self.me + 1 } else { self.me - 1 };
        self.exchange(peer, half, peer);
        self.combine(half);
        if even {
            self.receive(peer);
            return Some((self.me / 2, active));
        }
        self.send(peer, half);
        None
    }

    fn unfold_even(&mut self, bytes: u64) {
        let rest = self.size - (1 << self.size.ilog2());
        if self.me >= 2 * rest {
            return;
        }
        if self.me.is_multiple_of(2) {
            self.send(self.me + 1, bytes);
        } else {
            self.receive(self.me - 1);
        }
    }

    /// The member at a place among the active ones of `fold_halves`.
    fn active_even(&self, place: usize) -> usize {
        let rest = self.size - (1 << self.size.ilog2());
        if place < rest { 2 * place } else { place + rest }
    }

    fn halve(&mut self, place: usize, active: usize, bytes: u64) {
        for bit in 0..active.ilog2() {
            let peer = self.active_even(place ^ (1 << bit));
            let part = share(bytes, 2 << bit);
            self.exchange(peer, part, peer);
            self.combine(part);
        }
    }

    fn unhalve(&mut self, place: usize, active: usize, bytes: u64) {
        for bit in (0..active.ilog2()).rev() {
            let peer = self.active_even(place ^ (1 << bit));
            self.exchange(peer, share(bytes, 2 << bit), peer);
        }
    }

    /// As Rabenseifner's allreduce, but only the root gets the parts.
    pub(super) fn reduce_halving(&mut self, root: usize, bytes: u64) {
        let place = self.fold_halves(bytes);
        let holder = self.active_even(0);
        if let Some((place, active)) = place {
            self.halve(place, active, bytes);
            for bit in (0..active.ilog2()).rev() {
                // Places whose higher bits are set have sent their parts already.
                match place >> bit {
                    0 => self.receive(self.active_even(place | (1 << bit))),
                    1 => self.send(self.active_even(place ^ (1 << bit)), share(bytes, 2 << bit)),
                    _ => {}
                }
            }
        }
        if holder != root {
            if self.me == holder {
                self.send(root, bytes);
            } else if self.me == root {
                self.receive(holder);
            }
        }
    }

    /// The combined vector in parts, each at one member: halving, for any number of members.
    pub(super) fn reduce_scatter_halving(&mut self, bytes: u64) {
        let place = self.fold_halves(bytes);
        if let Some((place, active)) = place {
            self.halve(place, active, bytes);
        }
        self.unfold_even(share(bytes, self.size));
    }

    /// A part goes around the ring and is combined at each member.
    pub(super) fn reduce_scatter_ring(&mut self, bytes: u64) {
        let part = share(bytes, self.size);
        for _ in 1..self.size {
            self.exchange(self.after(1), part, self.before(1));
            self.combine(part);
        }
    }

    /// Each pair in a step of its own, parts are combined on arrival.
    pub(super) fn reduce_scatter_pairwise(&mut self, bytes: u64) {
        let part = share(bytes, self.size);
        for distance in 1..self.size {
            self.exchange(self.after(distance), part, self.before(distance));
            self.combine(part);
        }
    }

    /// Around a ring twice: parts are combined, and then gathered.
    pub(super) fn allreduce_ring(&mut self, bytes: u64) {
        self.reduce_scatter_ring(bytes);
        self.allgather_ring(share(bytes, self.size));
    }

    /// All blocks, once around a ring.
    pub(super) fn allgather_ring(&mut self, block: u64) {
        for _ in 1..self.size {
            self.exchange(self.after(1), block, self.before(1));
        }
    }

    /// The same with blocks of different sizes.
    pub(super) fn allgatherv_ring(&mut self, counts: &[u64]) {
        for step in 1..self.size {
            let block = self.before(step - 1);
            self.exchange(self.after(1), counts.get(block).copied().unwrap_or(0), self.before(1));
        }
    }

    /// All blocks in steps of 1, 2, 4... blocks.
    pub(super) fn allgather_bruck(&mut self, block: u64) {
        let mut distance = 1;
        while distance < self.size {
            let blocks = distance.min(self.size - distance) as u64;
            self.exchange(self.before(distance), blocks * block, self.after(distance));
            distance *= 2;
        }
    }

    /// All blocks in log2 steps between pairs; Bruck if the number of members is no power of 2.
    pub(super) fn allgather_doubling(&mut self, block: u64) {
        if !self.size.is_power_of_two() {
            self.allgather_bruck(block);
            return;
        }
        for bit in 0..self.size.ilog2() {
            let peer = self.me ^ (1 << bit);
            self.exchange(peer, block << bit, peer);
        }
    }

    /// Neighbours exchange two blocks in each step after the first; a ring if the number of members is odd.
    pub(super) fn allgather_neighbour(&mut self, block: u64) {
        if !self.size.is_multiple_of(2) {
            self.allgather_ring(block);
            return;
        }
        let even = self.me.is_multiple_of(2);
        let peers = if even {
            [self.after(1), self.before(1)]
        } else {
            [self.before(1), self.after(1)]
        };
        self.exchange(peers[0], block, peers[0]);
        for step in 1..self.size / 2 {
            self.exchange(peers[step % 2], 2 * block, peers[step % 2]);
        }
    }

    /// All messages at once.
    pub(super) fn alltoall_linear(&mut self, block: u64, counts: &[u64]) {
        let mut requests = Vec::with_capacity(2 * self.size);
        for distance in 1..self.size {
            requests.push(self.irecv(self.after(distance)));
        }
        for distance in 1..self.size {
            let to = self.before(distance);
            requests.push(self.isend(to, counts.get(to).copied().unwrap_or(block)));
        }
        self.wait(&requests);
    }

    /// One message in each step, to members at growing distances.
    pub(super) fn alltoall_pairwise(&mut self, block: u64, counts: &[u64]) {
        for distance in 1..self.size {
            let to = self.after(distance);
            self.exchange(to, counts.get(to).copied().unwrap_or(block), self.before(distance));
        }
    }

    /// In log2 steps, each with about half of all blocks.
    pub(super) fn alltoall_bruck(&mut self, block: u64) {
        let mut distance = 1;
        while distance < self.size {
            let blocks = (1..self.size).filter(|place| place & distance != 0).count() as u64;
            self.exchange(self.after(distance), blocks * block, self.before(distance));
            distance *= 2;
        }
    }

    /// A barrier in which pairs exchange.
    pub(super) fn barrier_doubling(&mut self) {
        self.allreduce_doubling(0);
    }

    /// A barrier in which each member signals to the one 1, 2, 4... places after it.
    pub(super) fn barrier_bruck(&mut self) {
        let mut distance = 1;
        while distance < self.size {
            self.exchange(self.after(distance), 0, self.before(distance));
            distance *= 2;
        }
    }
}
