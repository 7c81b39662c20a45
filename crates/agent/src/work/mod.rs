//! The work that agents do with each other. Each kind of work is one module, and appears once in [`kind`] or in
//! [`errand`].
//!
//! * Kinds: `train`, `gated`, `bulk` (also with `iperf`), `datagrams`, `pingpong`, `route`, `echo`, `replay`, `broadcast`, `greet`,
//!   `excuse` and `callback`.
//! * `schedule` asks round by round; `reception` and `visit` answer.
//! * `ping` precedes every probe.
//! * `inbound` receives the packets of a train, `collecting` until their sender is done. `sizing` finds how large they may be.
//! * `ledger` counts the bytes that a replay has moved.
//! * `cpu` measures how busy the host was, and `withheld` for how long the agent had no core.

pub mod broadcast;
pub mod bulk;
pub mod callback;
mod collecting;
pub mod cpu;
pub mod datagrams;
pub mod echo;
pub mod excuse;
pub mod gated;
pub mod greet;
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
mod sizing;
pub mod train;
pub mod visit;
pub mod withheld;

use gavotte_probe::train::Shape;

use crate::contract::agents::{BulkEngine, Probe, probe::Kind as Asked};
use crate::contract::data::hello::Work;
use crate::error::WorkError;
use crate::work::kind::{Errand, Kind, PATIENCE};

/// Creates both sides of a probe.
///
/// # Errors
/// If the kind is unknown or a parameter is out of range; the text names it.
pub fn kind(probe: &Probe) -> Result<Box<dyn Kind>, WorkError> {
    Ok(match &probe.kind {
        Some(Asked::BurstTrain(asked)) => Box::new(Shape::try_from(asked)?),
        Some(Asked::Bulk(asked)) if asked.engine() == BulkEngine::Iperf3 => Box::new(iperf::Spec::new(asked)?),
        Some(Asked::Bulk(asked)) => Box::new(bulk::Spec::new(asked)?),
        Some(Asked::GatedTrain(asked)) => Box::new(gated::Spec::new(asked)?),
        Some(Asked::PingPong(asked)) => Box::new(pingpong::Spec::new(asked)?),
        Some(Asked::Traceroute(asked)) => Box::new(route::Spec::new(asked)?),
        Some(Asked::Datagrams(asked)) => Box::new(datagrams::Spec::new(*asked)?),
        Some(Asked::Echo(asked)) => Box::new(echo::Spec::new(*asked)?),
        None => {
            return Err(WorkError::Request(
                "this version does not know this kind of probe".into(),
            ));
        }
    })
}

/// Returns the work that a guest asks for.
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
            answer: Ok(Box::new(replay::Incoming::new(&transfer))),
        },
        Some(Work::Subscribe(subscribe)) => Errand {
            round: None,
            patience: Some(broadcast::PATIENCE),
            answer: Ok(Box::new(broadcast::Subscription::new(subscribe))),
        },
        Some(Work::Greet(_)) => Errand {
            round: None,
            patience: Some(PATIENCE),
            answer: Ok(Box::new(greet::Answered)),
        },
        Some(Work::Line(_)) => Errand {
            round: None,
            patience: None,
            answer: Ok(Box::new(callback::Attached)),
        },
        Some(Work::CalledBack(back)) => Errand {
            round: None,
            patience: None,
            answer: Ok(Box::new(callback::Delivered(back.number))),
        },
        // The agent's control takes letters before they come here.
        Some(Work::Lettered(_)) => Errand {
            round: None,
            patience: Some(PATIENCE),
            answer: Err(WorkError::Request("this agent takes no letters".into())),
        },
        Some(Work::Excuse(excuse)) => Errand {
            round: Some(excuse.round),
            patience: Some(PATIENCE),
            answer: Ok(Box::new(excuse::Excused)),
        },
        None => Errand {
            round: None,
            patience: Some(PATIENCE),
            answer: Err(WorkError::Request(
                "this version does not know this kind of work".into(),
            )),
        },
    }
}
