//! Runs a schedule: round after round, the agent sends its probes and takes part as receiver at the same time.
//!
//! A probe that fails is answered with its error and the schedule goes on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::Status;
use tracing::{Instrument, debug, info, info_span};

use crate::contract::agents::{Failure, MeasureRequest, Probe, ProbeReply, probe::Kind as Asked};
use crate::contract::data::hello::Work;
use crate::error::WorkError;
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::dial::{Call, Greeted};
use crate::plane::pulse;
use crate::work::cpu::Meter;
use crate::work::excuse::excuse;
use crate::work::kind::PATIENCE;
use crate::work::{self, ping};

/// How long to wait for a peer when the schedule does not say.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// Longest such wait.
pub const MAX_WAIT: Duration = Duration::from_secs(600);

/// A checked schedule.
#[derive(Debug)]
pub struct Schedule {
    turns: BTreeMap<u32, Turn>,
    wait: Duration,
}

#[derive(Debug, Default)]
struct Turn {
    probes: Vec<Probe>,
    sources: Vec<String>,
}

impl Schedule {
    /// Checks a request. Rounds in which the agent has nothing to do are skipped.
    ///
    /// # Errors
    /// Text that names what is wrong.
    pub fn new(request: MeasureRequest) -> Result<Self, String> {
        let mut turns: BTreeMap<u32, Turn> = BTreeMap::new();
        if !request.probes.is_sorted_by_key(|probe| probe.round)
            || !request.receives.is_sorted_by_key(|expect| expect.round)
        {
            return Err("probes and receives must be in ascending order of their rounds".into());
        }
        for probe in request.probes {
            let turn = turns.entry(probe.round).or_default();
            // Trains share one socket and one time line; streams stand beside each other as a shuffle's do.
            let bulk = |probe: &Probe| matches!(probe.kind, Some(Asked::Bulk(_)));
            if turn.probes.iter().any(|other| other.peer == probe.peer) {
                return Err(format!("two probes to `{}` in round {}", probe.peer, probe.round));
            }
            let alone = turn.probes.is_empty();
            if !alone && !turn.probes.iter().chain([&probe]).all(bulk) {
                return Err(format!("two probes in round {}, and not all of them bulk", probe.round));
            }
            turn.probes.push(probe);
        }
        for expect in request.receives {
            turns.entry(expect.round).or_default().sources.push(expect.peer);
        }
        // Rounds may be counted from 0 or from 1.
        if let Some((last, _)) = turns.last_key_value().filter(|(last, _)| **last > request.rounds) {
            return Err(format!("round {last} of a schedule of {} rounds", request.rounds));
        }
        let wait = match Duration::try_from_secs_f64(request.wait_s) {
            Ok(Duration::ZERO) => DEFAULT_WAIT,
            Ok(wait) => wait.min(MAX_WAIT),
            Err(_) => return Err(format!("wait_s: not {}", request.wait_s)),
        };
        Ok(Self { turns, wait })
    }
}

/// Runs the schedule and sends each probe's reply as it is known. Stops when the hold is over (the probes that are
/// left are answered so) or nobody listens any more.
pub async fn run(
    plane: Arc<Plane>,
    hold: Arc<Hold>,
    schedule: Schedule,
    replies: mpsc::Sender<Result<ProbeReply, Status>>,
) {
    let start = Instant::now();
    info!(rounds = schedule.turns.len(), "schedule begins");
    let mut turns = schedule.turns.into_iter().peekable();
    let mut greetings: Vec<Greeting> = Vec::new();
    while let Some((round, turn)) = turns.next() {
        hold.rounds.enter(round, &turn.sources);
        let greeted = std::mem::take(&mut greetings);
        if let Some((_, next)) = turns.peek() {
            greetings.extend(next.probes.iter().map(|probe| greet(&plane, &hold, probe)));
        }
        let sending = async {
            let mut probes = JoinSet::new();
            let mut greeted = greeted.into_iter();
            for probe in turn.probes {
                let (plane, hold, greeted) = (Arc::clone(&plane), Arc::clone(&hold), greeted.next());
                let span = info_span!("probe", round, peer = probe.peer);
                let answering = async move { answer(&plane, &hold, &probe, greeted, schedule.wait, start).await };
                probes.spawn(answering.instrument(span));
            }
            let mut listened = true;
            while let Some(reply) = probes.join_next().await {
                let Ok(reply) = reply else { continue };
                listened &= replies.send(Ok(reply)).await.is_ok();
            }
            listened
        };
        let receiving = hold.during(async {
            tokio::select! {
                () = hold.rounds.received(schedule.wait) => {}
                () = missed(&plane, &hold, round, &turn.sources, &replies) => {}
            }
            Ok(())
        });
        tokio::select! {
            // A hold that is over ends both.
            (listened, _) = async { tokio::join!(sending, receiving) } => {
                if !listened {
                    break;
                }
            }
            () = replies.closed() => break,
        }
    }
    info!(seconds = start.elapsed().as_secs_f64(), "schedule ends");
}

/// A greeting that is under way; ends with its set.
type Greeting = JoinSet<Result<Greeted, WorkError>>;

/// Greets the peer of a probe of the next round, which takes five ways between the two, while this round goes on. The peer lets
/// it wait at its door.
fn greet(plane: &Arc<Plane>, hold: &Arc<Hold>, probe: &Probe) -> Greeting {
    let mut greeting = JoinSet::new();
    let (plane, hold, probe) = (Arc::clone(plane), Arc::clone(hold), probe.clone());
    greeting.spawn(async move {
        let (peer, kind) = (target(&plane, &hold, &probe)?, work::kind(&probe)?);
        let call = Call {
            plane: &plane,
            hold: &hold,
            peer,
            congestion: kind.congestion().unwrap_or_default(),
            work: Work::Probe(probe.clone()),
            connect: pulse::LIMIT,
            patience: Some(kind.patience()),
            ready: Duration::ZERO,
        };
        call.greet().await
    });
    greeting
}

/// Looks at the sources of a round for as long as it lasts. Of those that take no connections any more the controller is
/// told, and the round waits for them no longer.
async fn missed(
    plane: &Arc<Plane>,
    hold: &Arc<Hold>,
    round: u32,
    sources: &[String],
    replies: &mpsc::Sender<Result<ProbeReply, Status>>,
) {
    let mut looking = JoinSet::new();
    for source in sources {
        if let Ok(peer) = hold.peers.get(source) {
            let (plane, source) = (Arc::clone(plane), source.clone());
            looking.spawn(async move {
                pulse::stopped(&plane, peer).await;
                source
            });
        }
    }
    while let Some(gone) = looking.join_next().await {
        let Ok(source) = gone else { continue };
        // One that has done its part may go.
        if !hold.rounds.awaits(&source) {
            continue;
        }
        let error = WorkError::Vanished;
        info!(round, source, %error, "waits no longer for a probe");
        hold.rounds.gave_up(round, &source);
        let reply = ProbeReply {
            round,
            peer: source,
            error: error.to_string(),
            failure: error.failure().into(),
            awaited: true,
            ..ProbeReply::default()
        };
        let _ = replies.send(Ok(reply)).await;
    }
    std::future::pending::<()>().await;
}

async fn answer(
    plane: &Arc<Plane>,
    hold: &Arc<Hold>,
    probe: &Probe,
    greeting: Option<Greeting>,
    wait: Duration,
    start: Instant,
) -> ProbeReply {
    let began = Instant::now();
    let mut reply = ProbeReply {
        round: probe.round,
        peer: probe.peer.clone(),
        started_s: began.duration_since(start).as_secs_f64(),
        ..ProbeReply::default()
    };
    // Boxed: the kinds of probes make a large future together.
    let work = Box::pin(run_probe(plane, hold, probe, (greeting, wait), began, &mut reply));
    let result = hold.during(hold.dropped.unless(&probe.peer, work)).await;
    if let Err(error) = result {
        reply.set_failure(error.failure());
        reply.error = error.to_string();
        info!(%error, "probe failed");
    }
    reply.seconds = began.elapsed().as_secs_f64();
    debug!(seconds = reply.seconds, bytes_sent = reply.bytes_sent, "probe ends");
    reply
}

async fn run_probe(
    plane: &Arc<Plane>,
    hold: &Arc<Hold>,
    probe: &Probe,
    (greeting, wait): (Option<Greeting>, Duration),
    began: Instant,
    reply: &mut ProbeReply,
) -> Result<(), WorkError> {
    let peer = target(plane, hold, probe)?;
    let plain = Call {
        plane,
        hold,
        peer,
        work: Work::Probe(probe.clone()),
        congestion: "",
        connect: pulse::LIMIT,
        patience: Some(PATIENCE),
        ready: wait,
    };
    let asking = async {
        let kind = work::kind(probe)?;
        let mut reservation = hold.budget.reserve(kind.bytes())?;
        let call = Call {
            congestion: kind.congestion().unwrap_or_default(),
            patience: Some(kind.patience()),
            ..plain.clone()
        };
        let probing = async {
            let greeted = match greeting {
                Some(mut greeting) => greeting.join_next().await,
                None => None,
            };
            let mut connection = match greeted {
                Some(Ok(Ok(greeted))) => call.welcomed(greeted).await?,
                // What failed beside the round before may do now.
                _ => call.dial().await?,
            };
            reply.rtt_s = ping::round_trip_s(&mut connection.stream).await?;
            tokio::time::sleep_until((began + kind.pause()).into()).await;
            let meter = Meter::start();
            let result = kind.ask(&call, connection, reply).await;
            reply.sender_cpu = reply.sender_cpu.or(meter.share());
            result
        };
        // A peer that is not ready yet may vanish, too.
        let result = tokio::select! {
            result = probing => result,
            () = pulse::stopped(plane, peer) => Err(WorkError::Vanished),
        };
        reservation.spend(reply.bytes_sent);
        result
    };
    let result = asking.await;
    // A probe that failed before its peer heard of it: the pings are the first thing after the welcome.
    let unheard = |error: &WorkError| {
        let told = matches!(error, WorkError::Handshake(_) | WorkError::Late { .. });
        reply.rtt_s == 0.0 && !told && ![Failure::Unreachable, Failure::Vanished].contains(&error.failure())
    };
    if result.as_ref().is_err_and(unheard) {
        // Whoever does not hear it waits to the end of its patience.
        if let Err(error) = excuse(&plain, probe.round).await {
            debug!(%error, "the peer does not know that it will not come");
        }
    }
    result
}

/// Where a probe goes. A bulk probe to the agent itself crosses loopback; no other kind makes sense there.
fn target(plane: &Plane, hold: &Hold, probe: &Probe) -> Result<SocketAddr, WorkError> {
    if probe.peer == hold.name && matches!(probe.kind, Some(Asked::Bulk(_))) {
        Ok(plane.own())
    } else {
        hold.peers.get(&probe.peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::agents::Expect;

    fn probe(round: u32) -> Probe {
        Probe {
            round,
            peer: "b".into(),
            kind: None,
        }
    }

    fn request(probes: &[u32], receives: &[u32], rounds: u32) -> MeasureRequest {
        let expect = |round: &u32| Expect {
            round: *round,
            peer: "b".into(),
        };
        MeasureRequest {
            run_id: "run".into(),
            probes: probes.iter().copied().map(probe).collect(),
            receives: receives.iter().map(expect).collect(),
            wait_s: 0.0,
            rounds,
        }
    }

    #[test]
    fn a_schedule_joins_probes_and_receives_by_round() {
        let schedule = Schedule::new(request(&[0, 2], &[2, 2, 3], 4)).unwrap();
        let turns: Vec<_> = schedule
            .turns
            .iter()
            .map(|(round, turn)| (*round, turn.probes.len(), turn.sources.len()))
            .collect();
        assert_eq!(turns, [(0, 1, 0), (2, 1, 2), (3, 0, 1)]);
        assert_eq!(schedule.wait, DEFAULT_WAIT);
    }

    #[test]
    fn streams_to_several_peers_share_a_round_but_trains_do_not() {
        let to = |peer: &str, kind| Probe {
            round: 0,
            peer: peer.into(),
            kind: Some(kind),
        };
        let bulk = || Asked::Bulk(crate::contract::agents::Bulk::default());
        let train = || Asked::GatedTrain(crate::contract::agents::GatedTrain::default());
        let schedule = |probes| {
            Schedule::new(MeasureRequest {
                probes,
                ..request(&[], &[], 1)
            })
        };
        assert_eq!(
            schedule(vec![to("b", bulk()), to("c", bulk())]).unwrap().turns[&0]
                .probes
                .len(),
            2
        );
        assert!(
            schedule(vec![to("b", bulk()), to("b", bulk())])
                .unwrap_err()
                .contains("two probes to `b`")
        );
        assert!(
            schedule(vec![to("b", bulk()), to("c", train())])
                .unwrap_err()
                .contains("not all of them bulk")
        );
        assert!(
            schedule(vec![to("b", train()), to("c", train())])
                .unwrap_err()
                .contains("not all of them bulk")
        );
    }

    #[test]
    fn senseless_schedules_are_named() {
        assert!(
            Schedule::new(request(&[2, 1], &[], 9))
                .unwrap_err()
                .contains("ascending")
        );
        assert!(
            Schedule::new(request(&[], &[2, 1], 9))
                .unwrap_err()
                .contains("ascending")
        );
        assert!(
            Schedule::new(request(&[1, 1], &[], 9))
                .unwrap_err()
                .contains("two probes")
        );
        assert!(Schedule::new(request(&[10], &[], 9)).unwrap_err().contains("round 10"));
        for wait_s in [-1.0, f64::NAN] {
            assert!(
                Schedule::new(MeasureRequest {
                    wait_s,
                    ..request(&[], &[], 9)
                })
                .is_err()
            );
        }
    }
}
