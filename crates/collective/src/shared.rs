//! Links that messages of several pairs share, and a lower bound on the time until all bytes have crossed them.

use std::collections::HashMap;

use gavotte_net::{BitsPerSec, Volume};

use crate::paths::Paths;

/// For each pair of ranks, the shared links on its path. A search considers them in addition to the costs of single
/// messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    ranks: usize,
    /// For each pair, row = source: the start of its links in `links`; the last entry is the end.
    first: Vec<u32>,
    links: Vec<u32>,
    /// For each link.
    per_byte_s: Vec<f64>,
    numbers: HashMap<usize, u32>,
    /// If there are many ranks: the paths that the links are computed from. Nothing is listed then, and the network
    /// numbers the links.
    paths: Option<Paths>,
}

impl Shared {
    pub(crate) fn new(ranks: usize) -> Self {
        Self {
            ranks,
            ..Self::default()
        }
    }

    pub(crate) fn computed(paths: Paths) -> Self {
        Self {
            ranks: paths.count(),
            paths: Some(paths),
            ..Self::default()
        }
    }

    /// Starts the next pair; links added from now on belong to it.
    pub(crate) fn begin_pair(&mut self) {
        if self.first.is_empty() {
            self.first.push(0);
        }
        self.first.push(self.links.len() as u32);
    }

    /// Adds a link to the current pair; any number may identify it.
    pub(crate) fn add(&mut self, link: usize, rate: BitsPerSec) {
        let next = self.per_byte_s.len() as u32;
        let number = *self.numbers.entry(link).or_insert(next);
        if number == next {
            self.per_byte_s.push(8.0 / rate.bps());
        }
        self.links.push(number);
        if let Some(end) = self.first.last_mut() {
            *end = self.links.len() as u32;
        }
    }

    /// Clears `load_s`, and gives it an entry for each link.
    pub(crate) fn clear(&self, load_s: &mut Vec<f64>) {
        let links = self
            .paths
            .as_ref()
            .map_or(self.per_byte_s.len(), |paths| paths.network().first_pair());
        load_s.clear();
        load_s.resize(links, 0.0);
    }

    /// The shared links from one rank to another, if they are listed.
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
    pub(crate) fn count(&self, load_s: &mut [f64], source: usize, target: usize, Volume(bytes): Volume) {
        if let Some(paths) = &self.paths {
            paths.for_each_shared(source, target, |link| {
                load_s[paths.network().link_index(link)] += bytes * 8.0 / paths.link_rate(link).bps();
            });
            return;
        }
        for &link in self.of(source, target) {
            load_s[link as usize] += bytes * self.per_byte_s[link as usize];
        }
    }
}
