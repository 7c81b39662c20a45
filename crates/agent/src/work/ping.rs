//! The 1-byte ping-pong before every probe: it gives the round-trip time, and leaves a path whose address tables
//! and bridges are warm before the first burst.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::{WorkError, within};

/// Round trips per probe at most; odd, so that the median is one of them.
const MOST: usize = 11;
/// And at least.
const LEAST: usize = 3;
/// Once they took so long, no more than these: behind a queue of 160 ms eleven took 1.8 s, before half a second of sending.
const ENOUGH: Duration = Duration::from_millis(50);
/// What the last ping says; the others say 0.
const LAST: u8 = 1;

/// How long all round trips together may take.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Sends the pings over an authenticated connection and returns the median round-trip time in seconds.
///
/// # Errors
/// When the connection fails or the other side does not answer in time.
pub async fn round_trip_s<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<f64, WorkError> {
    let pings = async {
        let (begin, mut times) = (Instant::now(), Vec::with_capacity(MOST));
        loop {
            let start = Instant::now();
            let number = times.len() + 1;
            let last = number == MOST || (number >= LEAST && start - begin > ENOUGH);
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

/// Answers the pings.
///
/// # Errors
/// When the connection fails or the pings do not come in time.
pub async fn echo<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<(), WorkError> {
    let pongs = async {
        for _ in 0..MOST {
            let byte = stream.read_u8().await?;
            stream.write_u8(byte).await?;
            if byte == LAST {
                break;
            }
        }
        io::Result::Ok(())
    };
    within("answer pings", LIMIT, async {
        pongs.await.map_err(WorkError::io("answer pings"))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_ping_is_answered() {
        let (mut near, mut far) = tokio::io::duplex(8);
        let (rtt, echoed) = tokio::join!(round_trip_s(&mut near), echo(&mut far));
        echoed.unwrap();
        assert!(rtt.unwrap() > 0.0);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_pings_are_few() {
        let (mut near, mut far) = tokio::io::duplex(8);
        let slow = async {
            for number in 1.. {
                let byte = far.read_u8().await?;
                std::thread::sleep(ENOUGH / 2);
                far.write_u8(byte).await?;
                if byte == LAST {
                    return io::Result::Ok(number);
                }
            }
            unreachable!()
        };
        let (rtt, pings) = tokio::join!(round_trip_s(&mut near), slow);
        assert!((ENOUGH / 2).as_secs_f64() <= rtt.unwrap());
        assert_eq!(pings.unwrap(), LEAST);
    }

    #[tokio::test]
    async fn a_closed_connection_is_told() {
        let (mut near, far) = tokio::io::duplex(8);
        drop(far);
        assert!(matches!(round_trip_s(&mut near).await, Err(WorkError::Io { .. })));
    }
}
