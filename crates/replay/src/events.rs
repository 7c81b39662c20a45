//! What happens at a time, and what waits until a rank is inside MPI.

use std::cmp::Ordering;

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An actor goes on.
    Go(u32),
    /// A rank hands the first piece of a message to the wire.
    Hand(u32),
    /// A piece between two ranks of one host, or that nothing limits, has been sent.
    Sent(u32),
    /// A piece has arrived.
    Arrive(u32),
    /// The permit for the rest of a message has arrived.
    Permit(u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Due {
    pub(crate) time_s: f64,
    /// Of events at one time, the first one that was scheduled happens first.
    pub(crate) number: u64,
    pub(crate) event: Event,
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.time_s
            .total_cmp(&other.time_s)
            .then(self.number.cmp(&other.number))
    }
}

/// What a rank can only do inside MPI.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chore {
    /// Permit the sender of a matched message to go on.
    Permit(u32),
    /// Send the rest of a permitted message.
    Send(u32),
}
