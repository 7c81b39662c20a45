//! What agents do with each other: one module a kind of work, each named once more, in [`kind`] or [`errand`].
//!
//! Kinds are `train`, `gated`, `bulk` (also by `iperf`), `pingpong`, `route`, `echo`, `replay`, `broadcast` and `excuse`. The other
//! modules serve them: `schedule` asks round by round, `reception` and `visit` answer, `ping` goes before every probe, `inbound`
//! takes in the packets of a train, `ledger` counts what a replay has moved, `cpu` tells how busy the host was meanwhile.

pub mod broadcast;
pub mod bulk;
pub mod cpu;
pub mod echo;
pub mod excuse;
pub mod gated;
mod inbound;
pub mod iperf;
pub mod iperf_report;
pub mod kind;
mod ledger;
pub mod ping;
pub mod pingpong;
pub mod reception;
pub mod replay;
pub mod route;
pub mod schedule;
pub mod train;
pub mod visit;

use gavotte_probe::train::Shape;

use crate::contract::agents::{BulkEngine, Probe, probe::Kind as Asked};
use crate::contract::data::hello::Work;
use crate::error::WorkError;
use crate::work::kind::{Errand, Kind, PATIENCE};

/// Both sides of a probe.
///
/// # Errors
/// When its kind is unknown or a parameter out of range, which the text names.
pub fn kind(probe: &Probe) -> Result<Box<dyn Kind>, WorkError> {
    Ok(match &probe.kind {
        Some(Asked::BurstTrain(asked)) => Box::new(Shape::try_from(asked)?),
        Some(Asked::Bulk(asked)) if asked.engine() == BulkEngine::Iperf3 => Box::new(iperf::Spec::new(asked)?),
        Some(Asked::Bulk(asked)) => Box::new(bulk::Spec::new(asked)?),
        Some(Asked::GatedTrain(asked)) => Box::new(gated::Spec::new(asked)?),
        Some(Asked::PingPong(asked)) => Box::new(pingpong::Spec::new(asked)?),
        Some(Asked::Traceroute(asked)) => Box::new(route::Spec::new(asked)?),
        Some(Asked::Echo(asked)) => Box::new(echo::Spec::new(*asked)?),
        None => return Err(WorkError::Request("no kind of probe that this version knows".into())),
    })
}

/// What a guest wants.
pub fn errand(work: Option<Work>) -> Errand {
    match work {
        Some(Work::Probe(probe)) => {
            let kind = kind(&probe);
            Errand {
                round: Some(probe.round),
                patience: Some(kind.as_ref().map_or(PATIENCE, |kind| kind.patience())),
                answer: kind.map(|kind| kind as _),
            }
        }
        Some(Work::Transfer(transfer)) => Errand {
            round: None,
            patience: None,
            answer: Ok(Box::new(replay::Incoming::new(transfer.bytes, transfer.bin_s))),
        },
        Some(Work::Subscribe(subscribe)) => Errand {
            round: None,
            patience: Some(broadcast::PATIENCE),
            answer: Ok(Box::new(broadcast::Subscription::new(subscribe))),
        },
        Some(Work::Excuse(excuse)) => Errand {
            round: Some(excuse.round),
            patience: Some(PATIENCE),
            answer: Ok(Box::new(excuse::Excused)),
        },
        None => Errand {
            round: None,
            patience: Some(PATIENCE),
            answer: Err(WorkError::Request("no work that this version knows".into())),
        },
    }
}
