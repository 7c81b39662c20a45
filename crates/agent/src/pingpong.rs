//! Ping-pong of equal messages over one TCP connection, as RPCA calibrates its alpha-beta model (section IV-B, after
//! `SKaMPI`): half of a round trip is the time of one message.

use std::io;
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp;
use tokio::net::TcpStream;

use crate::budget::Allowance;
use crate::contract::agents::{PingPong, PingPongResult, SizeTimes};
use crate::contract::data::{PingPongWork, hello::Work};
use crate::error::{WorkError, within};
use crate::stream;

/// Most sizes of one sweep.
const MAX_SIZES: usize = 64;
/// Longest message.
const MAX_BYTES: u64 = 1 << 30;
/// Most messages of one size.
const MAX_REPETITIONS: u32 = 10_000;
/// How long a whole sweep may take.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A checked sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    sizes: Vec<u64>,
    repetitions: u32,
    congestion: String,
}

impl Plan {
    /// Checks a probe's parameters; 0 repetitions mean one.
    ///
    /// # Errors
    /// Text that names the parameter out of range.
    pub fn new(asked: &PingPong) -> Result<Self, WorkError> {
        if asked.bytes.is_empty() {
            return Err(WorkError::Request("ping_pong.bytes: at least one size".into()));
        }
        // The first message of a size warms the path and is not counted.
        Self::checked(
            &asked.bytes,
            asked.repetitions.max(1).saturating_add(1),
            &asked.congestion,
        )
    }

    /// The same at the acceptor. No sizes are no messages.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn of_work(work: &PingPongWork) -> Result<Self, WorkError> {
        Self::checked(&work.bytes, work.repetitions, &work.congestion)
    }

    fn checked(sizes: &[u64], repetitions: u32, congestion: &str) -> Result<Self, WorkError> {
        let refuse = |text: String| Err(WorkError::Request(text));
        if sizes.len() > MAX_SIZES {
            return refuse(format!(
                "ping_pong.bytes: at most {MAX_SIZES} sizes, not {}",
                sizes.len()
            ));
        }
        if let Some(size) = sizes.iter().find(|size| !(1..=MAX_BYTES).contains(*size)) {
            return refuse(format!("ping_pong.bytes: 1 to {MAX_BYTES}, not {size}"));
        }
        if repetitions > MAX_REPETITIONS {
            return refuse(format!(
                "ping_pong.repetitions: below {MAX_REPETITIONS}, not {repetitions}"
            ));
        }
        Ok(Self {
            sizes: sizes.to_vec(),
            repetitions,
            congestion: congestion.to_owned(),
        })
    }

    /// The congestion control to pin; empty for the host's default.
    pub fn congestion(&self) -> &str {
        &self.congestion
    }

    /// What the acceptor is asked for.
    pub fn work(&self, round: u32) -> Work {
        Work::PingPong(PingPongWork {
            round,
            bytes: self.sizes.clone(),
            repetitions: self.repetitions,
            congestion: self.congestion.clone(),
        })
    }

    /// Bytes that each side sends.
    pub fn total_bytes(&self) -> u64 {
        self.sizes.iter().sum::<u64>() * u64::from(self.repetitions)
    }
}

/// Plays the sender's side on a connection whose pings are done. `bytes_sent` counts what left even beside an error.
///
/// # Errors
/// When the budget does not allow it, the connection fails or the sweep takes too long.
pub async fn play(
    stream: &TcpStream,
    budget: &Allowance,
    plan: &Plan,
    bytes_sent: &mut u64,
) -> Result<PingPongResult, WorkError> {
    let playing = async {
        let mut sizes = Vec::new();
        for &bytes in &plan.sizes {
            let mut seconds = Vec::new();
            for repetition in 0..plan.repetitions {
                let start = Instant::now();
                stream::send_all(stream, &mut budget.reserve(bytes)?).await?;
                *bytes_sent += bytes;
                stream::receive(stream, bytes, 0.0).await?;
                if repetition > 0 {
                    seconds.push(start.elapsed().as_secs_f64() / 2.0);
                }
            }
            sizes.push(SizeTimes { bytes, seconds });
        }
        Ok::<_, WorkError>(sizes)
    };
    let sizes = within("finish the ping-pong", LIMIT, playing).await?;
    Ok(PingPongResult {
        sizes,
        congestion: tcp::congestion(stream)?,
        retransmits: tcp::info(stream)?.retransmits,
    })
}

/// Plays the acceptor's side.
///
/// # Errors
/// As [`play`].
pub async fn answer(stream: &TcpStream, budget: &Allowance, plan: &Plan) -> Result<(), WorkError> {
    let answering = async {
        for &bytes in &plan.sizes {
            for _ in 0..plan.repetitions {
                stream::receive(stream, bytes, 0.0).await?;
                stream::send_all(stream, &mut budget.reserve(bytes)?).await?;
            }
        }
        Ok::<_, WorkError>(())
    };
    within("finish the ping-pong", LIMIT, answering).await
}

/// Pins the congestion control of an accepted connection, unless it is to be the host's default.
///
/// # Errors
/// When the host does not have it.
pub fn pin(stream: &TcpStream, plan: &Plan) -> io::Result<()> {
    if plan.congestion.is_empty() {
        return Ok(());
    }
    tcp::set_congestion(stream, &plan.congestion).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn asked(bytes: &[u64]) -> PingPong {
        PingPong {
            bytes: bytes.to_vec(),
            repetitions: 3,
            congestion: String::new(),
        }
    }

    #[test]
    fn plans_out_of_range_are_named() {
        let refused = |asked: PingPong| Plan::new(&asked).unwrap_err().to_string();
        assert!(refused(asked(&[])).contains("at least one"));
        assert!(refused(asked(&[0])).contains("bytes"));
        assert!(refused(asked(&[u64::MAX])).contains("bytes"));
        assert!(refused(asked(&[1; 65])).contains("sizes"));
        let many = PingPong {
            repetitions: u32::MAX,
            ..asked(&[1])
        };
        assert!(refused(many).contains("repetitions"));
    }

    #[tokio::test]
    async fn messages_of_all_sizes_come_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let plan = Plan::new(&asked(&[1, 1000, 3_000_000])).unwrap();
        let budget = Allowance::new(100_000_000);
        let mut sent = 0;
        let (result, answered) = tokio::join!(play(&near, &budget, &plan, &mut sent), answer(&far, &budget, &plan));
        answered.unwrap();
        let sizes = result.unwrap().sizes;
        let shape: Vec<_> = sizes.iter().map(|size| (size.bytes, size.seconds.len())).collect();
        assert_eq!(shape, [(1, 3), (1000, 3), (3_000_000, 3)]);
        assert!(sizes.iter().flat_map(|size| &size.seconds).all(|s| *s > 0.0));
        assert_eq!(sent, plan.total_bytes());
    }

    #[tokio::test]
    async fn a_budget_that_ends_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let plan = Plan::new(&asked(&[1000])).unwrap();
        let mut sent = 0;
        let result = play(&near, &Allowance::new(999), &plan, &mut sent).await;
        assert!(matches!(result, Err(WorkError::Budget(_))));
    }
}
