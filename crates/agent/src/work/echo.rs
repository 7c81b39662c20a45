//! Sends some bytes to a peer, which returns them: the smallest kind of work.

use std::time::{Duration, Instant};

use tonic::async_trait;

use crate::contract::agents::{Echo, EchoResult, ProbeReply, probe_reply};
use crate::error::{WorkError, within};
use crate::plane::dial::{Call, Connection};
use crate::plane::stream;
use crate::work::kind::{Answer, Ask};
use crate::work::visit::Visit;

/// Largest number of bytes: either side may have sent all of them before the other reads.
const MAX_BYTES: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// A checked echo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    bytes: u64,
}

impl Spec {
    /// Checks a probe's parameters.
    ///
    /// # Errors
    /// A text that names the parameter that is out of range.
    pub fn new(asked: Echo) -> Result<Self, WorkError> {
        let Echo { bytes } = asked;
        if !(1..=MAX_BYTES).contains(&bytes) {
            return Err(WorkError::Request(format!("echo.bytes: 1 to {MAX_BYTES}, not {bytes}")));
        }
        Ok(Self { bytes })
    }
}

#[async_trait]
impl Ask for Spec {
    async fn ask(&self, call: &Call<'_>, connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let start = Instant::now();
        let echoing = async {
            stream::send_all(&connection.stream, &mut call.hold.budget.reserve(self.bytes)?).await?;
            reply.bytes_sent = self.bytes;
            stream::receive(&connection.stream, self.bytes, 0.0).await
        };
        within("receive the echo", LIMIT, echoing).await?;
        let seconds = start.elapsed().as_secs_f64();
        reply.result = Some(probe_reply::Result::Echo(EchoResult { seconds }));
        Ok(())
    }
}

#[async_trait]
impl Answer for Spec {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.warm_up().await?;
        let stream = &visit.guest.connection.stream;
        let echoing = async {
            stream::receive(stream, self.bytes, 0.0).await?;
            stream::send_all(stream, &mut visit.guest.hold.budget.reserve(self.bytes)?).await
        };
        within("echo", LIMIT, echoing).await
    }
}
