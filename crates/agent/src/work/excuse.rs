//! Tells a peer that waits for a probe that the probe will not come.

use std::time::Duration;

use tonic::async_trait;

use crate::contract::data::{Excuse, hello::Work};
use crate::error::WorkError;
use crate::plane::dial::Call;
use crate::work::kind::Answer;
use crate::work::visit::Visit;

/// How long the peer may take to accept the message.
const LIMIT: Duration = Duration::from_secs(5);

/// The receiving side: the message counts as the visit, and the round continues.
pub struct Excused;

#[async_trait]
impl Answer for Excused {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.welcome(0).await
    }
}

/// Tells the peer of `call` that the probe of `round` will not come.
///
/// # Errors
/// If the peer does not accept the message.
pub async fn excuse(call: &Call<'_>, round: u32) -> Result<(), WorkError> {
    let call = Call {
        work: Work::Excuse(Excuse { round }),
        ready: LIMIT,
        ..call.clone()
    };
    call.dial().await.map(drop)
}
