//! Messages on one TCP connection, each answered by one byte, as RPCA calibrates its alpha-beta model (section IV-B).
//!
//! `SKaMPI`, which the paper uses, returns each message in full length and halves the round trip. Both directions of a
//! path then appear with their mean (64 Mbit/s with caps of 76 and 57). A short answer measures only the requested
//! direction.

use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp;
use tokio::net::TcpStream;
use tonic::async_trait;

use crate::contract::agents::{PingPong, PingPongResult, ProbeReply, SizeTimes, probe_reply};
use crate::error::{WorkError, within};
use crate::hold::budget::Allowance;
use crate::plane::dial::{Call, Connection};
use crate::plane::stream;
use crate::work::kind::{Answer, Ask};
use crate::work::visit::Visit;

/// Largest number of sizes in one sweep.
const MAX_SIZES: usize = 64;
/// Longest message in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Largest number of messages of one size.
const MAX_REPETITIONS: u32 = 10_000;
/// Size of the answer to each message in bytes.
const ANSWER_BYTES: u64 = 1;
/// Time limit for a whole sweep.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A checked sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    sizes: Vec<u64>,
    repetitions: u32,
    congestion: String,
}

impl Spec {
    /// Checks a probe's parameters; 0 repetitions mean one.
    ///
    /// # Errors
    /// A text that names the parameter that is out of range.
    pub fn new(asked: &PingPong) -> Result<Self, WorkError> {
        let refuse = |text: String| Err(WorkError::Request(text));
        if asked.bytes.is_empty() {
            return refuse("ping_pong.bytes: at least one size".into());
        }
        let sizes = &asked.bytes;
        // The first message of each size warms the path up and does not count.
        let repetitions = asked.repetitions.max(1).saturating_add(1);
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
            sizes: sizes.clone(),
            repetitions,
            congestion: asked.congestion.clone(),
        })
    }

    /// Bytes that the sender sends.
    pub fn total_bytes(&self) -> u64 {
        self.sizes.iter().sum::<u64>() * u64::from(self.repetitions)
    }
}

#[async_trait]
impl Ask for Spec {
    fn congestion(&self) -> Option<&str> {
        Some(&self.congestion)
    }

    async fn ask(&self, call: &Call<'_>, connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let result = play(&connection.stream, &call.hold.budget, self, &mut reply.bytes_sent).await?;
        reply.mtu_bytes = tcp::info(&connection.stream)?.mtu_bytes;
        reply.result = Some(probe_reply::Result::PingPong(result));
        Ok(())
    }
}

#[async_trait]
impl Answer for Spec {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        if !self.congestion.is_empty() {
            tcp::set_congestion(&visit.guest.connection.stream, &self.congestion)
                .or_else(|error| if error.is_forbidden() { Ok(()) } else { Err(error) })?;
        }
        visit.warm_up().await?;
        answer(&visit.guest.connection.stream, &visit.guest.hold.budget, self).await
    }
}

/// Runs the sender's side on a connection whose pings are complete. `bytes_sent` counts the sent bytes even if an error
/// follows.
///
/// # Errors
/// If the budget does not allow it, the connection fails or the sweep takes too long.
async fn play(
    stream: &TcpStream,
    budget: &Allowance,
    spec: &Spec,
    bytes_sent: &mut u64,
) -> Result<PingPongResult, WorkError> {
    let playing = async {
        let mut sizes = Vec::new();
        for &bytes in &spec.sizes {
            let mut seconds = Vec::new();
            for repetition in 0..spec.repetitions {
                let start = Instant::now();
                stream::send_all(stream, &mut budget.reserve(bytes)?).await?;
                *bytes_sent += bytes;
                stream::receive(stream, ANSWER_BYTES, 0.0).await?;
                if repetition > 0 {
                    seconds.push(start.elapsed().as_secs_f64());
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

/// Runs the acceptor's side.
///
/// # Errors
/// The same as for [`play`].
async fn answer(stream: &TcpStream, budget: &Allowance, spec: &Spec) -> Result<(), WorkError> {
    let answering = async {
        for &bytes in &spec.sizes {
            for _ in 0..spec.repetitions {
                stream::receive(stream, bytes, 0.0).await?;
                stream::send_all(stream, &mut budget.reserve(ANSWER_BYTES)?).await?;
            }
        }
        Ok::<_, WorkError>(())
    };
    within("finish the ping-pong", LIMIT, answering).await
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
    fn specs_out_of_range_are_named() {
        let refused = |asked: PingPong| Spec::new(&asked).unwrap_err().to_string();
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
    async fn messages_of_all_sizes_are_answered_by_one_byte() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let spec = Spec::new(&asked(&[1, 1000, 3_000_000])).unwrap();
        let (budget, answers) = (Allowance::new(100_000_000), Allowance::new(12));
        let mut sent = 0;
        let (result, answered) = tokio::join!(play(&near, &budget, &spec, &mut sent), answer(&far, &answers, &spec));
        answered.unwrap();
        let sizes = result.unwrap().sizes;
        let shape: Vec<_> = sizes.iter().map(|size| (size.bytes, size.seconds.len())).collect();
        assert_eq!(shape, [(1, 3), (1000, 3), (3_000_000, 3)]);
        assert!(sizes.iter().flat_map(|size| &size.seconds).all(|s| *s > 0.0));
        assert_eq!(sent, spec.total_bytes());
    }

    #[tokio::test]
    async fn a_budget_that_ends_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let spec = Spec::new(&asked(&[1000])).unwrap();
        let mut sent = 0;
        let result = play(&near, &Allowance::new(999), &spec, &mut sent).await;
        assert!(matches!(result, Err(WorkError::Budget(_))));
    }
}
