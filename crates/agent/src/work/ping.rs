//! The 1-byte ping-pong before every probe: it gives the round-trip time, and leaves a path whose address tables
//! and bridges are warm before the first burst.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::{WorkError, within};

/// Round trips per probe; odd, so that the median is one of them.
pub const ROUND_TRIPS: usize = 11;

/// How long all round trips together may take.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Sends the pings over an authenticated connection and returns the median round-trip time in seconds.
///
/// # Errors
/// When the connection fails or the other side does not answer in time.
pub async fn round_trip_s<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<f64, WorkError> {
    let pings = async {
        let mut times = [0.0; ROUND_TRIPS];
        for time in &mut times {
            let start = Instant::now();
            stream.write_u8(0).await?;
            stream.read_u8().await?;
            *time = start.elapsed().as_secs_f64();
        }
        Ok(times)
    };
    let mut times = within("ping", LIMIT, async { pings.await.map_err(WorkError::io("ping")) }).await?;
    times.sort_by(f64::total_cmp);
    Ok(times[ROUND_TRIPS / 2])
}

/// Answers the pings.
///
/// # Errors
/// When the connection fails or the pings do not come in time.
pub async fn echo<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<(), WorkError> {
    let pongs = async {
        for _ in 0..ROUND_TRIPS {
            let byte = stream.read_u8().await?;
            stream.write_u8(byte).await?;
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

    #[tokio::test]
    async fn a_closed_connection_is_told() {
        let (mut near, far) = tokio::io::duplex(8);
        drop(far);
        assert!(matches!(round_trip_s(&mut near).await, Err(WorkError::Io { .. })));
    }
}
