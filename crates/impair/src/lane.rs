//! One direction of a link for one class of packets: a token bucket, random loss, and a delay line.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::bucket::{Bucket, BucketShape};
use crate::jitter::Jitter;
use crate::time::Nanos;

/// The effects of a lane on packets, in this order: token bucket, loss, delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Profile {
    /// Delay of every packet.
    pub latency: Nanos,
    /// Largest random addition to the latency.
    pub jitter: Nanos,
    /// Share of packets that are lost, 0 to 1, each independently of the others.
    pub loss: f64,
    /// Token bucket, if any.
    pub bucket: Option<BucketShape>,
    /// Seed of losses and jitter.
    pub seed: u64,
}

/// What happened to a packet that was offered to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet leaves at this time.
    Leaves(Nanos),
    /// The packet was lost at random.
    Lost,
    /// The packet found too few tokens and no space in the queue.
    Policed,
}

/// A first-in, first-out line of packets that wait until they leave.
#[derive(Debug)]
pub struct Lane<P> {
    profile: Profile,
    bucket: Option<Bucket>,
    jitter: Jitter,
    random: SmallRng,
    line: VecDeque<(Nanos, P)>,
    last: Nanos,
}

impl<P> Lane<P> {
    /// Creates an empty lane.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            bucket: profile.bucket.map(Bucket::new),
            jitter: Jitter::new(profile.jitter, profile.seed.wrapping_add(1)),
            random: SmallRng::seed_from_u64(profile.seed),
            line: VecDeque::new(),
            last: Nanos::ZERO,
        }
    }

    /// Decides the fate of a packet of `bytes` bytes that arrives at `now`, and keeps it unless it is dropped.
    ///
    /// Packets leave in the order in which they were offered.
    pub fn offer(&mut self, now: Nanos, bytes: usize, packet: P) -> Fate {
        let wait = match &mut self.bucket {
            Some(bucket) => match bucket.charge(now, bytes) {
                Some(wait) => wait,
                None => return Fate::Policed,
            },
            None => Nanos::ZERO,
        };
        if self.profile.loss > 0.0 && self.random.random::<f64>() < self.profile.loss {
            return Fate::Lost;
        }
        let sent = now.saturating_add(wait);
        let delay = self.profile.latency.saturating_add(self.jitter.at(sent));
        self.last = self.last.max(sent.saturating_add(delay));
        self.line.push_back((self.last, packet));
        Fate::Leaves(self.last)
    }

    /// Returns the time at which the first packet of the line leaves.
    pub fn next(&self) -> Option<Nanos> {
        self.line.front().map(|(due, _)| *due)
    }

    /// Returns the first packet if it leaves at `now` or before.
    pub fn take(&mut self, now: Nanos) -> Option<P> {
        self.next().filter(|due| *due <= now)?;
        self.line.pop_front().map(|(_, packet)| packet)
    }
}
