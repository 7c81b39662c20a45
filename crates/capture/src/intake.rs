//! The datagrams that a reader of exports has received, and what in them does not count.

use std::fmt::Display;

use crate::ends::Directory;
use crate::skipped::Skipped;

/// What a reader of exports has received.
#[derive(Debug)]
pub struct Intake {
    /// The ends that rows name.
    pub ends: Directory,
    /// Number of datagrams of the wanted kind.
    pub datagrams: u64,
    /// Datagrams of other kinds.
    pub others: Skipped,
    /// Number of damaged datagrams.
    pub damaged: u64,
    /// What is wrong with the first damaged datagram.
    pub damage: Option<String>,
    /// Samples or flows without payload that counts.
    pub skipped: Skipped,
}

impl Intake {
    /// Nothing received so far.
    pub fn new(ends: Directory) -> Self {
        Self {
            ends,
            datagrams: 0,
            others: Skipped::default(),
            damaged: 0,
            damage: None,
            skipped: Skipped::default(),
        }
    }

    /// Counts a damaged datagram.
    pub(crate) fn reject(&mut self, error: &impl Display) {
        self.damaged += 1;
        self.damage.get_or_insert_with(|| error.to_string());
    }
}
