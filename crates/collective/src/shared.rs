//! Links that messages of several pairs share, and how long what crosses them takes at least.

use std::collections::HashMap;

/// By pair of ranks, the shared links on its way: what a search looks at beside the costs of one message at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    ranks: usize,
    /// By pair, row = source: where its links begin in `links`; the last entry is their end.
    first: Vec<u32>,
    links: Vec<u32>,
    /// By link.
    per_byte_s: Vec<f64>,
    numbers: HashMap<usize, u32>,
    /// Whether pairs' own links are shared, too.
    crowded: bool,
}

impl Shared {
    pub(crate) fn new(ranks: usize) -> Self {
        Self {
            ranks,
            ..Self::default()
        }
    }

    /// What is added next is of the next pair.
    pub(crate) fn begin_pair(&mut self) {
        if self.first.is_empty() {
            self.first.push(0);
        }
        self.first.push(self.links.len() as u32);
    }

    /// A link of the pair begun last, known by any number.
    pub(crate) fn add(&mut self, link: usize, per_byte_s: f64) {
        let next = self.per_byte_s.len() as u32;
        let number = *self.numbers.entry(link).or_insert(next);
        if number == next {
            self.per_byte_s.push(per_byte_s);
        }
        self.links.push(number);
        if let Some(end) = self.first.last_mut() {
            *end = self.links.len() as u32;
        }
    }

    /// Several ranks are on one host.
    pub(crate) fn crowd(&mut self) {
        self.crowded = true;
    }

    /// Whether no two messages that differ in sender and receiver meet on a link.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty() && !self.crowded
    }

    /// Forgets what `load_s` counted; it has an entry for each link.
    pub(crate) fn clear(&self, load_s: &mut Vec<f64>) {
        load_s.clear();
        load_s.resize(self.per_byte_s.len(), 0.0);
    }

    /// The shared links from one rank to another.
    #[inline]
    pub(crate) fn of(&self, source: usize, target: usize) -> &[u32] {
        if self.links.is_empty() {
            return &[];
        }
        let at = source * self.ranks + target;
        &self.links[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// Counts bytes from one rank to another.
    #[inline]
    pub(crate) fn count(&self, load_s: &mut [f64], source: usize, target: usize, bytes: f64) {
        for &link in self.of(source, target) {
            load_s[link as usize] += bytes * self.per_byte_s[link as usize];
        }
    }
}
