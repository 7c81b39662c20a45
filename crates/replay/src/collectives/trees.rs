//! Collectives that go up or down a tree of ranks, or from and to the root alone.

use super::{Script, pieces, share};

/// The shape of a tree. Members are numbered from the root, which is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// Each member has one child.
    Chain,
    /// Two children each, level by level.
    Binary,
    /// A child for each higher bit that is not set; the first has the largest subtree.
    Binomial,
    /// The same with the lower bits; the first has the smallest subtree, and subtrees are consecutive.
    InOrder,
    /// Up to three children for each digit to the base of 4.
    FourNomial,
}

impl Tree {
    /// The parent of a member other than the root.
    fn parent(self, at: usize) -> usize {
        match self {
            Self::Chain => at - 1,
            Self::Binary => {
                // The nodes above level l are numbered below 2^l - 1, and a node's children follow at one and two times
                // the width of its level.
                let width = 1 << ((at + 1).ilog2() - 1);
                if at < 3 * width - 1 { at - width } else { at - 2 * width }
            }
            Self::Binomial => at ^ (1 << at.ilog2()),
            Self::InOrder => at & (at - 1),
            Self::FourNomial => at & !(3 << (at.trailing_zeros() / 2 * 2)),
        }
    }

    /// The children of a member, in the order in which they are served.
    fn children(self, at: usize, size: usize) -> Vec<usize> {
        let below = |child: &usize| *child < size;
        match self {
            Self::Chain => Some(at + 1).into_iter().filter(below).collect(),
            Self::Binary => {
                let width = 1 << (at + 1).ilog2();
                [at + width, at + 2 * width].into_iter().filter(below).collect()
            }
            Self::Binomial => {
                let first = if at == 0 { 0 } else { at.ilog2() + 1 };
                (first..usize::BITS)
                    .map(|bit| at + (1 << bit))
                    .take_while(below)
                    .collect()
            }
            Self::InOrder => (0..low_bits(at)).map(|bit| at + (1 << bit)).take_while(below).collect(),
            Self::FourNomial => {
                let digits = low_bits(at) / 2;
                let places = (0..digits)
                    .take_while(|place| at + (1 << (2 * place)) < size)
                    .collect::<Vec<_>>();
                // Larger subtrees first.
                let of_place = |place: u32| (1..4).map(move |digit| at + (digit << (2 * place)));
                places.into_iter().rev().flat_map(of_place).filter(below).collect()
            }
        }
    }

    /// The number of members in the subtree of a member.
    fn weight(self, at: usize, size: usize) -> u64 {
        1 + self
            .children(at, size)
            .into_iter()
            .map(|child| self.weight(child, size))
            .sum::<u64>()
    }
}

/// The number of low bits that a child may set.
fn low_bits(at: usize) -> u32 {
    if at == 0 { usize::BITS - 2 } else { at.trailing_zeros() }
}

impl Script<'_> {
    /// The own place in a tree with this root.
    fn at(&self, root: usize) -> usize {
        (self.me + self.size - root) % self.size
    }

    /// The member at a place of such a tree.
    fn member(&self, at: usize, root: usize) -> usize {
        (at + root) % self.size
    }

    /// Sends a vector down a tree in pieces. Each member receives the next piece while it sends one on.
    pub(super) fn bcast(&mut self, tree: Tree, root: usize, bytes: u64, segment_bytes: u64) {
        let at = self.at(root);
        let parent = (at != 0).then(|| self.member(tree.parent(at), root));
        let places = tree.children(at, self.size);
        let children: Vec<usize> = places.into_iter().map(|child| self.member(child, root)).collect();
        let sizes = pieces(bytes, segment_bytes);
        let mut arriving = parent.map(|parent| self.irecv(parent));
        for (place, &size) in sizes.iter().enumerate() {
            let current = arriving.take();
            if place + 1 < sizes.len() {
                arriving = parent.map(|parent| self.irecv(parent));
            }
            if let Some(current) = current {
                self.wait(&[current]);
            }
            let sends: Vec<u32> = children.iter().map(|&child| self.isend(child, size)).collect();
            self.wait(&sends);
        }
    }

    /// The root sends to all others at once.
    pub(super) fn bcast_linear(&mut self, root: usize, bytes: u64) {
        if self.me != root {
            self.receive(root);
            return;
        }
        let others = (0..self.size).filter(|&member| member != root).collect::<Vec<_>>();
        let sends: Vec<u32> = others.into_iter().map(|member| self.isend(member, bytes)).collect();
        self.wait(&sends);
    }

    /// Each half goes down one of two binary trees; then members of one exchange halves with members of the other.
    pub(super) fn bcast_split(&mut self, root: usize, bytes: u64, segment_bytes: u64) {
        let at = self.at(root);
        let half = share(bytes, 2);
        self.bcast(Tree::Binary, root, half, segment_bytes);
        // Left and right subtrees alternate: 1 and 2, 3 and 4, and so on. With an even size, the last has the root.
        let last = self.size.is_multiple_of(2).then_some(self.size - 1);
        match at {
            0 => {
                if let Some(last) = last {
                    self.send(self.member(last, root), half);
                }
            }
            _ if Some(at) == last => self.receive(self.member(0, root)),
            _ => {
                let pair = self.member(if at % 2 == 1 { at + 1 } else { at - 1 }, root);
                self.exchange(pair, half, pair);
            }
        }
    }

    /// A binomial scatter of the vector, and then an allgather of its parts.
    pub(super) fn bcast_scatter(&mut self, root: usize, bytes: u64, ring: bool) {
        let part = share(bytes, self.size);
        self.scatter_tree(root, part);
        if ring {
            self.allgather_ring(part);
        } else {
            self.allgather_bruck(part);
        }
    }

    /// Combines vectors up a tree, in pieces. The next child's piece, or the first child's next one, arrives while the last
    /// one is combined.
    pub(super) fn reduce(&mut self, tree: Tree, root: usize, bytes: u64, segment_bytes: u64) {
        let at = self.at(root);
        let parent = (at != 0).then(|| self.member(tree.parent(at), root));
        let children = tree.children(at, self.size);
        let sizes = pieces(bytes, segment_bytes);
        let mut arriving = None;
        for (place, &size) in sizes.iter().enumerate() {
            for (number, &child) in children.iter().enumerate() {
                let request = self.irecv(self.member(child, root));
                if let Some(earlier) = arriving.replace(request) {
                    self.wait(&[earlier]);
                    if number > 0 {
                        self.combine(size);
                    } else {
                        self.hand_up(parent, sizes[place - 1], true);
                    }
                }
            }
            if children.is_empty() {
                self.hand_up(parent, size, false);
            }
        }
        if let Some(last) = arriving {
            self.wait(&[last]);
            self.hand_up(parent, sizes[sizes.len() - 1], true);
        }
    }

    /// Combines the last child's piece, if there is one, and sends the result to the parent.
    fn hand_up(&mut self, parent: Option<usize>, bytes: u64, combine: bool) {
        if combine {
            self.combine(bytes);
        }
        if let Some(parent) = parent {
            self.send(parent, bytes);
        }
    }

    /// The root receives and combines one vector after the other, the last member's first.
    pub(super) fn reduce_linear(&mut self, root: usize, bytes: u64) {
        if self.me != root {
            self.send(root, bytes);
            return;
        }
        for member in (0..self.size).rev().filter(|&member| member != root) {
            self.receive(member);
            self.combine(bytes);
        }
    }

    /// Blocks go up a binomial tree.
    pub(super) fn gather_tree(&mut self, root: usize, block: u64) {
        let at = self.at(root);
        for child in Tree::InOrder.children(at, self.size) {
            self.receive(self.member(child, root));
        }
        if at != 0 {
            let bytes = block * Tree::InOrder.weight(at, self.size);
            self.send(self.member(Tree::InOrder.parent(at), root), bytes);
        }
    }

    /// The root receives one block after the other.
    pub(super) fn gather_linear(&mut self, root: usize, block: u64) {
        if self.me != root {
            self.send(root, block);
            return;
        }
        for member in (0..self.size).filter(|&member| member != root) {
            self.receive(member);
        }
    }

    /// The same, and each sender waits for a permit.
    pub(super) fn gather_permitted(&mut self, root: usize, block: u64) {
        if self.me != root {
            self.receive(root);
            self.send(root, block);
            return;
        }
        for member in (0..self.size).filter(|&member| member != root) {
            let request = self.irecv(member);
            self.send(member, 0);
            self.wait(&[request]);
        }
    }

    /// Blocks go down a binomial tree, the largest subtree's first.
    pub(super) fn scatter_tree(&mut self, root: usize, block: u64) {
        let at = self.at(root);
        if at != 0 {
            self.receive(self.member(Tree::InOrder.parent(at), root));
        }
        let children = Tree::InOrder.children(at, self.size);
        for child in children.into_iter().rev() {
            let bytes = block * Tree::InOrder.weight(child, self.size);
            self.send(self.member(child, root), bytes);
        }
    }

    /// The root sends one block after the other.
    pub(super) fn scatter_linear(&mut self, root: usize, counts: &[u64], block: u64) {
        if self.me != root {
            self.receive(root);
            return;
        }
        for member in (0..self.size).filter(|&member| member != root) {
            self.send(member, counts.get(member).copied().unwrap_or(block));
        }
    }

    /// The root sends all blocks at once.
    pub(super) fn scatter_at_once(&mut self, root: usize, block: u64) {
        self.bcast_linear(root, block);
    }

    /// Each member waits for the one before it.
    pub(super) fn scan(&mut self, bytes: u64) {
        if self.me > 0 {
            self.receive(self.me - 1);
            self.combine(bytes);
        }
        if self.me + 1 < self.size {
            self.send(self.me + 1, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn every_member_but_the_root_is_a_child_of_its_parent() {
        for tree in [
            Tree::Chain,
            Tree::Binary,
            Tree::Binomial,
            Tree::InOrder,
            Tree::FourNomial,
        ] {
            for size in 1..70 {
                for at in 1..size {
                    let parent = tree.parent(at);
                    assert!(
                        tree.children(parent, size).contains(&at),
                        "{tree:?} {size}: {at} of {parent}"
                    );
                }
                let children: usize = (0..size).map(|at| tree.children(at, size).len()).sum();
                assert_eq!(children, size - 1, "{tree:?} {size}");
                assert_eq!(tree.weight(0, size), size as u64);
            }
        }
    }
}
