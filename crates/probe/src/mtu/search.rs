//! Searches for the largest packet that arrives, without a socket and a clock.
//!
//! 1. It sends one packet of the size that the kernel reports. On nearly every path the answer ends the search after
//!    one round trip.
//! 2. Without an answer it sends that size again, together with common smaller sizes, and waits for the answers to all
//!    of them.
//! 3. Between the largest size that arrived and the next larger one that did not, it sends eight sizes at once. It
//!    repeats this until the two are one byte apart.
//!
//! A lost packet makes the MTU a few bytes smaller, but never too large. Rounds and packets are bounded.

use std::time::{Duration, Instant};

use super::{Family, MOST_BYTES};

/// Common MTUs of links, tunnels and clouds.
const COMMON_BYTES: [u32; 18] = [
    9_001, 9_000, 8_896, 8_500, 4_470, 1_500, 1_492, 1_480, 1_476, 1_460, 1_450, 1_440, 1_420, 1_400, 1_380, 1_340,
    1_280, 576,
];
/// Number of sizes in one round between two known ones.
const PARTS: u32 = 8;
/// Largest number of rounds: one for the kernel's size, two for common ones, four between 4,470 and 8,500, and one to
/// spare.
const MOST_ROUNDS: u32 = 8;
/// Number of rounds without any answer after which the search ends.
const SILENT_ROUNDS: u32 = 3;
/// Largest number of packets of a search.
pub const MOST_PACKETS: u32 = 96;
/// A round waits for answers this long plus three round trips, since a receiver may lose its core.
const PATIENCE: Duration = Duration::from_millis(60);

/// The search's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a packet of this size.
    Send(u32),
    /// Wait for an answer until this time.
    WaitUntil(Instant),
    /// The search is over.
    Done(PathMtu),
}

/// The MTU of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Largest IP packet.
    pub bytes: u32,
    /// Whether a packet of that size arrived. Otherwise the size is the kernel's.
    pub confirmed: bool,
}

/// One search. Answers and the time are arguments.
#[derive(Clone, Debug)]
pub struct Search {
    family: Family,
    most: u32,
    patience: Duration,
    confirmed: Option<u32>,
    /// Smallest size that is known not to arrive.
    refused: u32,
    /// Sizes of this round, in descending order.
    round: Vec<u32>,
    /// Number of this round's packets that were sent.
    sent: usize,
    until: Option<Instant>,
    rounds: u32,
    silent: u32,
    packets: u32,
}

impl Search {
    /// A search on a path whose kernel reports an MTU of `kernel_bytes` and whose round-trip time is `round_trip`.
    pub fn new(family: Family, kernel_bytes: u32, round_trip: Duration) -> Self {
        let most = kernel_bytes.clamp(family.least_bytes(), MOST_BYTES);
        Self {
            family,
            most,
            patience: PATIENCE + 3 * round_trip,
            confirmed: None,
            refused: most + 1,
            round: vec![most],
            sent: 0,
            until: None,
            rounds: 1,
            silent: 0,
            packets: 0,
        }
    }

    /// The same after a packet of that size got no answer: the search starts with the common sizes.
    pub fn suspecting(family: Family, kernel_bytes: u32, round_trip: Duration) -> Self {
        let mut search = Self::new(family, kernel_bytes, round_trip);
        search.begin(search.common());
        search
    }

    /// Records the kernel's current MTU. A smaller one than before restarts the search.
    pub fn handle_kernel(&mut self, kernel_bytes: u32) {
        let most = kernel_bytes.max(self.family.least_bytes());
        if most < self.most {
            self.most = most;
            self.confirmed = self.confirmed.filter(|bytes| *bytes <= most);
            self.refused = most + 1;
            self.begin(vec![most]);
        }
    }

    /// Records the answer to a packet of `mtu_bytes`.
    pub fn handle_answer(&mut self, mtu_bytes: u32) {
        if mtu_bytes <= self.most && Some(mtu_bytes) > self.confirmed {
            self.confirmed = Some(mtu_bytes);
        }
    }

    /// Records that the kernel refused to send a packet of `mtu_bytes`.
    pub fn handle_refusal(&mut self, mtu_bytes: u32) {
        self.refused = self.refused.min(mtu_bytes);
    }

    /// Largest size that has arrived so far.
    pub fn confirmed(&self) -> Option<u32> {
        self.confirmed
    }

    /// The next action.
    pub fn poll(&mut self, now: Instant) -> Action {
        loop {
            if self.confirmed == Some(self.most) || self.packets >= MOST_PACKETS {
                return Action::Done(self.path_mtu());
            }
            if let Some(size) = self.round.get(self.sent).copied() {
                self.sent += 1;
                self.packets += 1;
                return Action::Send(size);
            }
            let until = *self.until.get_or_insert(now + self.patience);
            // The round is over when its largest packet has arrived.
            let all = self.confirmed.is_some() && self.confirmed >= self.round.first().copied();
            if now < until && !all {
                return Action::WaitUntil(until);
            }
            let next = self.next_round();
            if next.is_empty() || self.rounds >= MOST_ROUNDS {
                return Action::Done(self.path_mtu());
            }
            self.begin(next);
            self.rounds += 1;
        }
    }

    fn begin(&mut self, round: Vec<u32>) {
        self.round = round;
        self.sent = 0;
        self.until = None;
    }

    /// Sizes of the next round, in descending order; empty if the search is over.
    fn next_round(&mut self) -> Vec<u32> {
        let Some(confirmed) = self.confirmed else {
            self.silent += 1;
            self.patience *= 2;
            return if self.silent >= SILENT_ROUNDS {
                Vec::new()
            } else {
                self.common()
            };
        };
        let missing = self.round.iter().copied().filter(|size| *size > confirmed).min();
        self.refused = self.refused.min(missing.unwrap_or(u32::MAX)).max(confirmed + 1);
        let gap = self.refused - confirmed;
        let parts = PARTS.min(gap - 1);
        let mut sizes: Vec<u32> = (1..=parts).map(|part| confirmed + gap * part / (parts + 1)).collect();
        sizes.reverse();
        sizes
    }

    fn common(&self) -> Vec<u32> {
        let smaller = |size: &u32| (self.family.least_bytes()..self.most).contains(size);
        std::iter::once(self.most)
            .chain(COMMON_BYTES.into_iter().filter(smaller))
            .collect()
    }

    fn path_mtu(&self) -> PathMtu {
        PathMtu {
            bytes: self.confirmed.unwrap_or(self.most),
            confirmed: self.confirmed.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROUND_TRIP: Duration = Duration::from_millis(1);

    /// Runs a search on a path that carries packets of up to `path_bytes`. Returns the result, the number of packets
    /// sent, and the time that it took.
    fn carry_out(search: &mut Search, path_bytes: u32, mut lost: impl FnMut() -> bool) -> (PathMtu, u32, Duration) {
        let start = Instant::now();
        let (mut now, mut packets) = (start, 0);
        let mut answers: Vec<(Instant, u32)> = Vec::new();
        loop {
            match search.poll(now) {
                Action::Send(size) => {
                    packets += 1;
                    if size <= path_bytes && !lost() {
                        answers.push((now + ROUND_TRIP, size));
                    }
                }
                Action::WaitUntil(until) => {
                    now = answers
                        .iter()
                        .map(|(at, _)| *at)
                        .min()
                        .map_or(until, |at| at.min(until));
                    answers.retain(|(at, size)| {
                        if *at <= now {
                            search.handle_answer(*size);
                        }
                        *at > now
                    });
                }
                Action::Done(path_mtu) => return (path_mtu, packets, now - start),
            }
        }
    }

    #[test]
    fn what_the_kernel_says_is_confirmed_by_one_packet() {
        for bytes in [1_280, 1_400, 1_500, 9_000, 9_216] {
            let mut search = Search::new(Family::V4, bytes, ROUND_TRIP);
            let (path_mtu, packets, took) = carry_out(&mut search, bytes, || false);
            assert_eq!((path_mtu, packets), (PathMtu { bytes, confirmed: true }, 1));
            assert_eq!(took, ROUND_TRIP);
        }
    }

    #[test]
    fn loopback_is_probed_as_a_jumbo_link() {
        let mut search = Search::new(Family::V4, 65_536, ROUND_TRIP);
        assert_eq!(search.poll(Instant::now()), Action::Send(MOST_BYTES));
    }

    #[test]
    fn a_path_without_any_answer_is_taken_as_the_kernel_says() {
        let mut search = Search::new(Family::V6, 1_500, ROUND_TRIP);
        let (path_mtu, packets, took) = carry_out(&mut search, 0, || false);
        assert_eq!((path_mtu.bytes, path_mtu.confirmed), (1_500, false));
        assert!(packets < 40 && took < Duration::from_secs(1), "{packets} {took:?}");
    }

    #[test]
    fn a_kernel_that_learns_a_smaller_mtu_is_followed() {
        let (mut search, now) = (Search::new(Family::V4, 1_500, ROUND_TRIP), Instant::now());
        assert_eq!(search.poll(now), Action::Send(1_500));
        search.handle_kernel(1_400);
        assert_eq!(search.poll(now), Action::Send(1_400));
        search.handle_answer(1_400);
        assert_eq!(
            search.poll(now),
            Action::Done(PathMtu {
                bytes: 1_400,
                confirmed: true
            })
        );
    }

    #[test]
    fn an_answer_beyond_what_was_asked_changes_nothing() {
        let (mut search, now) = (Search::new(Family::V4, 1_500, ROUND_TRIP), Instant::now());
        search.poll(now);
        search.handle_answer(9_000);
        assert!(matches!(search.poll(now), Action::WaitUntil(_)));
    }

    proptest! {
        #[test]
        fn a_black_hole_is_found_to_the_byte(kernel in 1_280u32..=9_216, path in 1_280u32..=9_216) {
            for family in [Family::V4, Family::V6] {
                let mut search = Search::new(family, kernel, ROUND_TRIP);
                let (path_mtu, packets, took) = carry_out(&mut search, path, || false);
                prop_assert_eq!(path_mtu, PathMtu { bytes: path.min(kernel), confirmed: true });
                prop_assert!(packets <= MOST_PACKETS && took < Duration::from_secs(1), "{} {:?}", packets, took);
            }
        }

        #[test]
        fn a_suspicion_costs_a_round_less(kernel in 1_280u32..=9_216, path in 1_280u32..=9_216) {
            let mut search = Search::suspecting(Family::V4, kernel, ROUND_TRIP);
            let (path_mtu, packets, took) = carry_out(&mut search, path, || false);
            prop_assert_eq!(path_mtu, PathMtu { bytes: path.min(kernel), confirmed: true });
            prop_assert!(packets <= MOST_PACKETS && took < Duration::from_millis(400), "{} {:?}", packets, took);
        }

        #[test]
        fn loss_never_makes_an_mtu_too_large(path in 1_280u32..=9_216, seed: u64) {
            let mut state = seed | 1;
            let lost = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 60) < 5
            };
            let mut search = Search::new(Family::V4, 9_216, ROUND_TRIP);
            let (path_mtu, packets, _) = carry_out(&mut search, path, lost);
            prop_assert!(!path_mtu.confirmed || path_mtu.bytes <= path);
            prop_assert!(packets <= MOST_PACKETS);
        }
    }
}
