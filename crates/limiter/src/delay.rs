//! How long packets wait between two hosts, by what the datagrams of their agents take.

/// The least time of so long stands for a way on which nothing waits: clocks of two hosts drift apart by 1 ms in it at most.
const BASE_S: f64 = 10.0;
/// Of two datagrams within so long the faster one counts: the other may have waited for a processor.
const PAIRED_S: f64 = 0.15;
/// What a datagram told is forgotten after so long.
const FRESH_S: f64 = 1.0;

/// The queue on the way from one host to another.
///
/// Datagrams that wait with all other packets take longer while a queue stands. How much longer is known without
/// synchronous clocks: against the fastest of late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay {
    /// The least times of this stretch and the one before.
    least_s: [Option<f64>; 2],
    stretch_s: f64,
    /// When the last two datagrams came, and what they took.
    last: [Option<(f64, f64)>; 2],
}

impl Delay {
    /// Takes what a datagram took, by clocks that differ by any amount.
    pub fn note(&mut self, now_s: f64, took_s: f64) {
        if now_s - self.stretch_s >= BASE_S {
            (self.least_s, self.stretch_s) = ([None, self.least_s[0]], now_s);
        }
        self.least_s[0] = Some(self.least_s[0].map_or(took_s, |least_s| least_s.min(took_s)));
        self.last = [Some((now_s, took_s)), self.last[0]];
    }

    /// How long packets wait now; 0 while nothing is known.
    pub fn queued_s(&self, now_s: f64) -> f64 {
        let Some((at_s, took_s)) = self.last[0].filter(|(at_s, _)| now_s - at_s <= FRESH_S) else {
            return 0.0;
        };
        let before_s = self.last[1].filter(|(before_s, _)| at_s - before_s <= PAIRED_S);
        let took_s = before_s.map_or(took_s, |(_, before_s)| took_s.min(before_s));
        let least_s = self.least_s.iter().flatten().copied().fold(took_s, f64::min);
        took_s - least_s
    }

    /// Share of a pair's bytes that counts as marked: none while packets wait for less than `most_s`, all from twice as
    /// long on, as a phantom queue marks. Without a `most_s` above zero, none.
    pub fn marked(&self, now_s: f64, most_s: f64) -> f64 {
        if most_s > 0.0 {
            (self.queued_s(now_s) / most_s - 1.0).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes datagrams every 50 ms from `from_s` on; clocks differ by a minute and drift.
    fn note(delay: &mut Delay, from_s: f64, queues_s: &[f64]) -> f64 {
        let mut now_s = from_s;
        for queue_s in queues_s {
            now_s += 0.05;
            delay.note(now_s, 60.0 + 5e-5 * now_s + queue_s);
        }
        now_s
    }

    #[test]
    fn what_waits_is_told_by_clocks_that_differ() {
        let mut delay = Delay::default();
        assert_eq!((delay.queued_s(5.0), delay.marked(5.0, 0.01)), (0.0, 0.0));
        let now_s = note(&mut delay, 0.0, &[0.004, 0.0, 0.030, 0.020]);
        assert!((delay.queued_s(now_s) - 0.020).abs() < 1e-4);
        assert!((delay.marked(now_s, 0.0125) - 0.6).abs() < 0.01);
        assert!((delay.marked(now_s, 0.0)).abs() < f64::EPSILON);
        // One that was held up alone says nothing.
        let now_s = note(&mut delay, now_s, &[0.0, 0.050]);
        assert!(delay.queued_s(now_s) < 1e-4);
        assert!(delay.queued_s(now_s + 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_clock_that_jumps_is_believed_after_a_while() {
        let mut delay = Delay::default();
        let mut now_s = note(&mut delay, 0.0, &[0.0; 10]);
        now_s = note(&mut delay, now_s, &[5.0; 2]);
        assert!(delay.queued_s(now_s) > 4.9);
        now_s = note(&mut delay, now_s, &[5.0; 450]);
        assert!(delay.queued_s(now_s) < 0.002);
    }
}
