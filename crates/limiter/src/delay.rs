//! Measures how long packets wait between two hosts, from the transit times of the agents' datagrams.

use std::collections::VecDeque;

use gavotte_net::Seconds;

/// Window whose shortest transit time counts as that of an empty path, in seconds. In this time, the clocks of two
/// hosts drift apart by at most 1 ms.
const BASE_S: f64 = 10.0;
/// The faster of two datagrams within this time counts, because the other may have waited for a processor.
const PAIRED_S: f64 = 0.15;
/// Age at which a datagram's delay is ignored, in seconds: longer than the longest time between two datagrams of an
/// active host.
const FRESH_S: f64 = 3.2;

/// Waits count from this share of the longest recent queue on. A queue that never gets long loses packets before they
/// wait for long, and drops would hit one pair and miss another.
const OF_LONGEST: f64 = 0.4;
/// But shorter waits than this do not count, since clocks and processors may cause them.
const LEAST_WAIT_S: f64 = 0.0015;

/// The queue on the path from one host to another.
///
/// Datagrams wait with all other packets, so they take longer while there is a queue. The additional time is known
/// without synchronised clocks: it is the difference from the fastest recent datagram.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay {
    /// The shortest transit times of this window and of the previous one.
    least_s: [Option<f64>; 2],
    stretch_s: f64,
    /// Arrival times and transit times of the last two datagrams.
    last: [Option<(f64, f64)>; 2],
    /// The longest waits of this window and of the previous one.
    longest_s: [f64; 2],
}

impl Delay {
    /// Records a datagram's transit time, by clocks that may differ by any amount.
    pub fn note(&mut self, Seconds(now_s): Seconds, Seconds(took_s): Seconds) {
        if now_s - self.stretch_s >= BASE_S {
            (self.least_s, self.stretch_s) = ([None, self.least_s[0]], now_s);
            self.longest_s = [0.0, self.longest_s[0]];
        }
        self.least_s[0] = Some(self.least_s[0].map_or(took_s, |least_s| least_s.min(took_s)));
        self.last = [Some((now_s, took_s)), self.last[0]];
        self.longest_s[0] = self.longest_s[0].max(self.queued_s(Seconds(now_s)));
    }

    /// The shortest recent transit time by clocks that may differ, in seconds; `None` while it is unknown.
    pub fn least_s(&self) -> Option<f64> {
        self.least_s.iter().flatten().copied().reduce(f64::min)
    }

    /// How long packets wait now, in seconds; 0 while it is unknown.
    pub fn queued_s(&self, Seconds(now_s): Seconds) -> f64 {
        let Some((at_s, took_s)) = self.last[0].filter(|(at_s, _)| now_s - at_s <= FRESH_S) else {
            return 0.0;
        };
        let before_s = self.last[1].filter(|(before_s, _)| at_s - before_s <= PAIRED_S);
        let took_s = before_s.map_or(took_s, |(_, before_s)| took_s.min(before_s));
        took_s - self.least_s().map_or(took_s, |least_s| least_s.min(took_s))
    }

    /// Share of a pair's bytes that counts as marked. It grows from none at a wait of `most_s` to all at twice that
    /// wait, as with a phantom queue. It is zero unless `most_s` is above zero. On a path whose queues stay short, shorter
    /// waits count.
    pub fn marked(&self, Seconds(now_s): Seconds, Seconds(most_s): Seconds) -> f64 {
        let longest_s = self.longest_s[0].max(self.longest_s[1]);
        let most_s = most_s.min((OF_LONGEST * longest_s).max(LEAST_WAIT_S));
        if most_s > 0.0 {
            (self.queued_s(Seconds(now_s)) / most_s - 1.0).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

/// Datagrams of the last this many seconds show the queue that all sources of a host have in common.
const COMMON_S: f64 = 0.08;
/// At least this many sources must have met it.
const COMMON_LEAST: usize = 4;

/// The queue that packets of all sources of a host wait in.
///
/// A pair that carries little has rare datagrams, and learns late that a link has filled. Its host hears from others meanwhile. If
/// the last datagrams of several sources have all waited, packets of each source wait.
#[derive(Clone, Debug)]
pub struct Common<K> {
    /// When the last datagrams arrived, whose they were, and the share of their bytes that counts as marked.
    recent: VecDeque<(f64, K, f64)>,
}

impl<K> Default for Common<K> {
    fn default() -> Self {
        Self {
            recent: VecDeque::new(),
        }
    }
}

impl<K: Copy + Eq> Common<K> {
    /// Records the share of a source's bytes that counts as marked by its last datagram ([`Delay::marked`]).
    pub fn note(&mut self, now: Seconds, source: K, share: f64) {
        self.recent.retain(|(_, other, _)| *other != source);
        self.forget(now);
        self.recent.push_back((now.0, source, share));
    }

    /// The share of each pair's bytes that counts as marked at least.
    pub fn marked(&mut self, now: Seconds) -> f64 {
        self.forget(now);
        if self.recent.len() < COMMON_LEAST {
            return 0.0;
        }
        self.recent.iter().map(|(.., share)| *share).fold(1.0, f64::min)
    }

    fn forget(&mut self, Seconds(now_s): Seconds) {
        while self.recent.front().is_some_and(|(at_s, ..)| now_s - at_s > COMMON_S) {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_delays_all_sources_delays_each() {
        let mut common = Common::default();
        let mut noted = |now_s: f64, source: u32, share: f64| {
            common.note(Seconds(now_s), source, share);
            common.marked(Seconds(now_s))
        };
        // Three sources prove nothing, whatever the number of their datagrams.
        for step in 0..6 {
            assert!(noted(0.001 * f64::from(step), u32::try_from(step).unwrap() % 3, 0.9).abs() < 1e-9);
        }
        assert!((noted(0.01, 3, 0.4) - 0.4).abs() < 1e-9);
        // One that did not wait takes another way, until it has not been heard of for a while.
        assert!(noted(0.05, 4, 0.0).abs() < 1e-9);
        for source in 5..9 {
            assert!(noted(0.1, source, 0.7).abs() < 1e-9);
        }
        assert!((noted(0.14, 9, 0.7) - 0.7).abs() < 1e-9);
        assert!(common.marked(Seconds(0.3)).abs() < 1e-9);
    }

    /// Records a datagram every 50 ms from `from_s` on; the clocks differ by a minute and drift.
    fn note(delay: &mut Delay, from_s: f64, queues_s: &[f64]) -> f64 {
        let mut now_s = from_s;
        for queue_s in queues_s {
            now_s += 0.05;
            delay.note(Seconds(now_s), Seconds(60.0 + 5e-5 * now_s + queue_s));
        }
        now_s
    }

    #[test]
    fn what_waits_is_told_by_clocks_that_differ() {
        let mut delay = Delay::default();
        assert_eq!(
            (delay.queued_s(Seconds(5.0)), delay.marked(Seconds(5.0), Seconds(0.01))),
            (0.0, 0.0)
        );
        assert_eq!(delay.least_s(), None);
        let now_s = note(&mut delay, 0.0, &[0.004, 0.0, 0.030, 0.020]);
        assert!((delay.queued_s(Seconds(now_s)) - 0.020).abs() < 1e-4);
        assert!(delay.least_s().is_some_and(|least_s| (least_s - 60.0).abs() < 1e-4));
        assert!((delay.marked(Seconds(now_s), Seconds(0.0125)) - 1.0).abs() < f64::EPSILON);
        assert!((delay.marked(Seconds(now_s), Seconds(0.0))).abs() < f64::EPSILON);
        // A single delayed datagram proves nothing.
        let now_s = note(&mut delay, now_s, &[0.0, 0.050]);
        assert!(delay.queued_s(Seconds(now_s)) < 1e-4);
        assert!(delay.queued_s(Seconds(now_s + 3.5)).abs() < f64::EPSILON);
    }

    #[test]
    fn shorter_waits_count_where_queues_stay_short() {
        let mut delay = Delay::default();
        let marked = |delay: &Delay, now_s| delay.marked(Seconds(now_s), Seconds(0.004));
        let now_s = note(&mut delay, 0.0, &[0.0, 0.0013, 0.0013]);
        assert!(marked(&delay, now_s).abs() < f64::EPSILON);
        let now_s = note(&mut delay, now_s, &[0.004, 0.004, 0.003, 0.003]);
        assert!((marked(&delay, now_s) - (0.003 / 0.0016 - 1.0)).abs() < 0.02);
        assert!(delay.marked(Seconds(now_s), Seconds(0.0)).abs() < f64::EPSILON);
        // In a deep queue the usual wait counts, until it has been short for a while.
        let now_s = note(&mut delay, now_s, &[0.030, 0.030, 0.003, 0.003]);
        assert!(marked(&delay, now_s).abs() < f64::EPSILON);
        let now_s = note(&mut delay, now_s, &[0.0, 0.003, 0.003].repeat(150));
        assert!(marked(&delay, now_s) > 0.5);
    }

    #[test]
    fn a_clock_that_jumps_is_believed_after_a_while() {
        let mut delay = Delay::default();
        let mut now_s = note(&mut delay, 0.0, &[0.0; 10]);
        now_s = note(&mut delay, now_s, &[5.0; 2]);
        assert!(delay.queued_s(Seconds(now_s)) > 4.9);
        now_s = note(&mut delay, now_s, &[5.0; 450]);
        assert!(delay.queued_s(Seconds(now_s)) < 0.002);
    }
}
