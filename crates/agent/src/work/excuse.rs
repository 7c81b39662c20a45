//! Tells a peer that waits for a probe that it will not come.

use std::time::Duration;

use tonic::async_trait;

use crate::contract::data::{Excuse, hello::Work};
use crate::error::WorkError;
use crate::plane::dial::Call;
use crate::work::kind::Answer;
use crate::work::visit::Visit;

/// How long the peer may take to hear it.
const LIMIT: Duration = Duration::from_secs(5);

/// The side that is excused: it counts the visit and goes on.
pub struct Excused;

#[async_trait]
impl Answer for Excused {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.welcome(0).await
    }
}

/// Excuses the probe of `round` to the peer of `call`.
///
/// # Errors
/// When the peer does not hear it.
pub async fn excuse(call: &Call<'_>, round: u32) -> Result<(), WorkError> {
    let call = Call {
        work: Work::Excuse(Excuse { round }),
        ready: LIMIT,
        ..call.clone()
    };
    call.dial().await.map(drop)
}
