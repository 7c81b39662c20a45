//! The gated train between two agents: packets and acknowledgements over UDP, beginning and end on the authenticated
//! TCP connection. Each side's packets run on a blocking thread, which sleeps and polls and never spins.

mod receive;
mod result;
mod send;
mod spec;

use std::time::Duration;

use receive::receive;
use send::send;
use tonic::async_trait;

pub use spec::Spec;

use crate::contract::agents::{ProbeReply, probe_reply};
use crate::error::WorkError;
use crate::plane::dial::{Call, Connection};
use crate::work::kind::{Answer, Ask};
use crate::work::visit::Visit;

#[async_trait]
impl Ask for Spec {
    fn bytes(&self) -> u64 {
        self.max_bytes
    }

    fn pause(&self) -> Duration {
        self.pause
    }

    async fn ask(&self, call: &Call<'_>, connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let outcome = send(call, *self, connection, reply).await?;
        reply.hops = outcome.hops;
        reply.receiver_cpu = outcome.receiver_cpu;
        reply.receiver_withheld = outcome.receiver_withheld;
        reply.result = Some(probe_reply::Result::GatedTrain(outcome.result));
        outcome.error.map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Answer for Spec {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        let (receiver, probe_id) = visit.await_train().await?;
        receive(&mut visit.guest, receiver, probe_id, *self).await
    }
}
