//! The 1-byte ping-pong before every probe. It measures the round-trip time, and fills the path's address tables and
//! bridges before the first burst.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use crate::error::{WorkError, within};

/// Largest number of round trips per probe; odd, so that the median is one of them.
const MOST: usize = 11;
/// Smallest number of round trips per probe.
const LEAST: usize = 3;
/// Once the round trips have taken this long, `LEAST` of them are enough: behind a queue of 160 ms eleven took 1.8 s,
/// before half a second of sending.
const ENOUGH: Duration = Duration::from_millis(50);
/// If round trips differ by more than this share of the shortest, the path's delay varies. `SEVERAL` of them then
/// measure how much.
const DIFFERENT: f64 = 0.02;
const LEAST_DIFFERENT_S: f64 = 3e-4;
const SEVERAL: usize = 9;
/// If there are fewer round trips, all of them count.
const FEW: usize = 5;
/// The byte of the last ping; the others contain 0.
const LAST: u8 = 1;

/// Time limit for all round trips together.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Sends the pings on an authenticated connection and returns the median round-trip time in seconds.
///
/// # Errors
/// If the connection fails or the other side does not answer in time.
pub async fn round_trip_s<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<f64, WorkError> {
    let pings = async {
        let (begin, mut times) = (Instant::now(), Vec::with_capacity(MOST));
        loop {
            let start = Instant::now();
            let number = times.len() + 1;
            let long = number >= LEAST && start - begin > ENOUGH;
            let last = number == MOST || (long && (number >= SEVERAL || !differ(&times)));
            stream.write_u8(u8::from(last) * LAST).await?;
            stream.read_u8().await?;
            times.push(start.elapsed().as_secs_f64());
            if last {
                return Ok(times);
            }
        }
    };
    let mut times = within("ping", LIMIT, async { pings.await.map_err(WorkError::io("ping")) }).await?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn differ(times: &[f64]) -> bool {
    let (low, high) = times.iter().fold((f64::INFINITY, 0.0f64), |(low, high), time| {
        (low.min(*time), high.max(*time))
    });
    high - low > (DIFFERENT * low).max(LEAST_DIFFERENT_S)
}

/// The round trips as the answering side measures them: from an answer to the next ping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The shortest round trip; zero after a single ping.
    pub round_trip: Duration,
    /// The difference between the longest and the shortest round trip, at most half the shortest. If there are five or
    /// more, the longest is ignored: a host that lost its core is no jitter of the path.
    pub jitter: Duration,
}

impl Heard {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let Some(round_trip) = times.first().copied() else {
            return Self::default();
        };
        let kept = if times.len() < FEW {
            times.len()
        } else {
            times.len() - 1
        };
        Self {
            round_trip,
            jitter: times[kept - 1].saturating_sub(round_trip).min(round_trip / 2),
        }
    }
}

/// Answers the pings.
///
/// # Errors
/// If the connection fails or the pings do not arrive in time.
pub async fn echo<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<Heard, WorkError> {
    let pongs = async {
        let (mut times, mut answered) = (Vec::with_capacity(MOST), None);
        for _ in 0..MOST {
            let byte = stream.read_u8().await?;
            times.extend(answered.map(|at: Instant| at.elapsed()));
            stream.write_u8(byte).await?;
            answered = Some(Instant::now());
            if byte == LAST {
                break;
            }
        }
        io::Result::Ok(Heard::of(times))
    };
    within("answer pings", LIMIT, async {
        pongs.await.map_err(WorkError::io("answer pings"))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(30);

    #[tokio::test]
    async fn every_ping_is_answered() {
        let (mut near, mut far) = tokio::io::duplex(8);
        let (rtt, echoed) = tokio::join!(round_trip_s(&mut near), echo(&mut far));
        assert!(rtt.unwrap() > 0.0 && echoed.unwrap().round_trip > Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_pings_are_few() {
        let (mut near, mut far) = tokio::io::duplex(8);
        let slow = async {
            for number in 1.. {
                let byte = far.read_u8().await?;
                // On the test's own clock: a machine that is busy would add jitter.
                tokio::time::sleep(SLOW).await;
                far.write_u8(byte).await?;
                if byte == LAST {
                    return io::Result::Ok(number);
                }
            }
            unreachable!()
        };
        let (rtt, pings) = tokio::join!(round_trip_s(&mut near), slow);
        assert!((rtt.unwrap() - SLOW.as_secs_f64()).abs() < 0.002);
        assert_eq!(pings.unwrap(), LEAST);
    }

    #[test]
    fn jitter_is_what_round_trips_differ_by() {
        let heard = |ms: &[u64]| Heard::of(ms.iter().copied().map(Duration::from_millis).collect());
        let of = |round_trip, jitter| Heard {
            round_trip: Duration::from_millis(round_trip),
            jitter: Duration::from_millis(jitter),
        };
        assert_eq!(heard(&[]), of(0, 0));
        assert_eq!(heard(&[44, 40, 41]), of(40, 4));
        assert_eq!(heard(&[44, 40, 41, 43, 90]), of(40, 4));
        assert_eq!(heard(&[2, 9]), of(2, 1));
        assert!(differ(&[0.040, 0.042]) && !differ(&[0.040, 0.0405]) && !differ(&[0.040]) && !differ(&[]));
    }

    #[tokio::test]
    async fn a_closed_connection_is_told() {
        let (mut near, far) = tokio::io::duplex(8);
        drop(far);
        assert!(matches!(round_trip_s(&mut near).await, Err(WorkError::Io { .. })));
    }
}
