//! Receives the guests of the data plane: waits for their round and runs the answering side of their work.

use std::sync::Arc;

use gavotte_probe::sockets::tcp;
use tracing::Span;

use crate::contract::data::hello::Work;
use crate::error::WorkError;
use crate::plane::door::Guest;
use crate::work::errand;
use crate::work::kind::Errand;
use crate::work::visit::Visit;

/// Runs the work that a guest asks for.
///
/// # Errors
/// If the guest is refused and the refusal cannot be sent, or if the work fails.
pub async fn receive(guest: Guest, work: Option<Work>) -> Result<(), WorkError> {
    let errand = errand(work);
    Span::current().record("round", errand.round);
    let mut visit = Visit::new(guest, errand.round);
    match serve(&mut visit, errand).await {
        Err(error) if !visit.welcomed => visit.guest.refuse(error.to_string(), error.failure()).await,
        result => result,
    }
}

async fn serve(visit: &mut Visit, errand: Errand) -> Result<(), WorkError> {
    let hold = Arc::clone(&visit.guest.hold);
    let source = visit.guest.source.clone();
    let _present = match errand.round {
        Some(round) => Some(visit.parked(hold.rounds.admit(round, &source)).await??),
        None => None,
    };
    // Only now: another probe may fill the path while the guest waits.
    if let Some(patience) = errand.patience {
        tcp::set_patience(&visit.guest.connection.stream, patience)?;
    }
    errand.answer?.answer(visit).await
}
