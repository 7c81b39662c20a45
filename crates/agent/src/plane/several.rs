//! One flow on several connections, where a round trip is long.
//!
//! TCP sends ten packets in its first round trip, and twice as many in each that follows. One connection at 20 Mbit/s and 150 ms needs five
//! round trips to fill its path. Several connections whose first ten packets together fill the path need one. A pacer
//! hands out their sum, so that they send at the flow's rate together.

use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard};

/// Bytes that a new connection sends in its first round trip: ten packets.
pub const INITIAL_WINDOW_BYTES: u64 = 10 * 1448;
/// Most connections of one flow: 49 Mbit/s at 150 ms, 185 at 40. Half as many left 28 Mbit/s at 150 ms idle for 80 ms.
pub(super) const MOST: u64 = 64;
/// Shorter round trips end before a second connection helps.
pub const SHORT: Duration = Duration::from_millis(4);
/// A pacer that is late catches up with what its pace gives in this time.
const CREDIT_S: f64 = 0.01;
/// How often a waiting pacer reads its pace again.
const LOOK: Duration = Duration::from_millis(50);

/// Returns how many connections fill a path of this round trip at `pace_bps` from the start; 1 where no pace is known.
pub fn connections(pace_bps: u64, round_trip: Duration) -> u32 {
    if round_trip < SHORT {
        return 1;
    }
    let bytes = pace_bps as f64 / 8.0 * round_trip.as_secs_f64();
    (bytes as u64).div_ceil(INITIAL_WINDOW_BYTES).clamp(1, MOST) as u32
}

/// Returns the most connections that a flow of this many bytes can use.
pub fn most_connections(bytes: u64) -> u32 {
    bytes.div_ceil(INITIAL_WINDOW_BYTES).clamp(1, MOST) as u32
}

/// Hands out what several connections send together.
#[derive(Debug)]
pub struct Pacer(Mutex<Debt>);

/// Bits that were sent too early.
#[derive(Clone, Copy, Debug)]
struct Debt {
    bits: f64,
    at: Instant,
}

impl Debt {
    fn settle(&mut self, now: Instant, pace_bps: u64) {
        let paid = pace_bps as f64 * now.saturating_duration_since(self.at).as_secs_f64();
        self.bits = (self.bits - paid).max(-CREDIT_S * pace_bps as f64);
        self.at = now;
    }
}

impl Default for Pacer {
    fn default() -> Self {
        Self(Mutex::new(Debt {
            bits: 0.0,
            at: Instant::now(),
        }))
    }
}

impl Pacer {
    /// Waits until the next bytes may leave. Connections take turns. 0 = no pace.
    ///
    /// The pacer calls `pace_bps` again while it waits, since the pace may change.
    pub async fn turn(&self, pace_bps: impl Fn() -> u64) -> Turn<'_> {
        let mut debt = self.0.lock().await;
        loop {
            let pace_bps = pace_bps();
            if pace_bps == 0 {
                debt.bits = 0.0;
                return Turn(debt);
            }
            debt.settle(Instant::now(), pace_bps);
            if debt.bits <= 0.0 {
                return Turn(debt);
            }
            let wait = Duration::from_secs_f64(debt.bits / pace_bps as f64);
            tokio::time::sleep(wait.min(LOOK)).await;
        }
    }
}

/// The right to send next.
#[derive(Debug)]
pub struct Turn<'a>(MutexGuard<'a, Debt>);

impl Turn<'_> {
    /// Counts what is sent in this turn, and ends it.
    pub fn sends(mut self, bytes: u64) {
        self.0.bits += 8.0 * bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_windows_fill_the_path() {
        let ms = Duration::from_millis;
        assert_eq!(connections(20_000_000, ms(150)), 26);
        assert_eq!(connections(20_000_000, ms(40)), 7);
        assert_eq!(connections(20_000_000, ms(10)), 2);
        assert_eq!(connections(1_000_000_000, ms(1)), 1);
        assert_eq!(connections(1_000_000_000, ms(150)), 64);
        assert_eq!(connections(0, ms(150)), 1);
        assert_eq!(
            (most_connections(0), most_connections(20_000), most_connections(1 << 30)),
            (1, 2, 64)
        );
    }

    #[tokio::test]
    async fn all_connections_together_keep_the_pace() {
        let pacer = Pacer::default();
        let start = Instant::now();
        let one = async {
            for _ in 0..5 {
                pacer.turn(|| 8_000_000).await.sends(10_000);
            }
        };
        tokio::join!(one, async {
            for _ in 0..5 {
                pacer.turn(|| 8_000_000).await.sends(10_000);
            }
        });
        // The first leaves at once, and the last 10 kB are still on their way.
        assert!(start.elapsed() >= Duration::from_millis(79), "{:?}", start.elapsed());
    }
}
