//! Runs a schedule: in each round, the agent sends its probes and receives those of other agents at the same time.
//!
//! If a probe fails, its reply contains the error and the schedule continues.

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
use crate::plane::connect::Greeted;
use crate::plane::dial::Call;
use crate::plane::pulse;
use crate::work::cpu::Meter;
use crate::work::excuse::excuse;
use crate::work::kind::PATIENCE;
use crate::work::{self, ping};

/// How long to wait for a peer if the schedule does not specify it.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// Longest such wait.
pub const MAX_WAIT: Duration = Duration::from_secs(600);

/// How long connecting to a peer may take. A first packet that was lost is repeated after 1 s, and the answer takes a
/// round trip. Other checks detect a vanished peer sooner.
const CONNECT_LIMIT: Duration = Duration::from_millis(2500);

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
    /// Checks a request. Rounds without work for this agent are skipped.
    ///
    /// # Errors
    /// A text that names the problem.
    pub fn new(request: MeasureRequest) -> Result<Self, String> {
        let mut turns: BTreeMap<u32, Turn> = BTreeMap::new();
        if !request.probes.is_sorted_by_key(|probe| probe.round)
            || !request.receives.is_sorted_by_key(|expect| expect.round)
        {
            return Err("probes and receives must be in ascending order of their rounds".into());
        }
        for probe in request.probes {
            let turn = turns.entry(probe.round).or_default();
            // Trains share one socket and one time line; streams may run concurrently, as in a shuffle.
            let bulk = |probe: &Probe| matches!(probe.kind, Some(Asked::Bulk(_) | Asked::Datagrams(_)));
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

/// Runs the schedule and sends each probe's reply as soon as it is known. It stops when the controller stops listening,
/// or when the hold is over. In that case the replies of the remaining probes contain that error.
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
            // Both end when the hold is over.
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

/// A greeting in progress; it ends when the set is dropped.
type Greeting = JoinSet<Result<Greeted, WorkError>>;

/// Greets the peer of a probe of the next round while this round continues, which saves five one-way delays. The peer
/// lets the greeting wait for its round.
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
            connect: CONNECT_LIMIT,
            patience: Some(kind.patience()),
            ready: Duration::ZERO,
        };
        call.greet().await
    });
    greeting
}

/// Checks the sources of a round for as long as the round lasts. If a source no longer accepts connections, the
/// controller gets a reply and the round no longer waits for that source.
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
        // A source that has done its part may leave.
        if !hold.rounds.awaits(&source) {
            continue;
        }
        let error = WorkError::Vanished;
        info!(round, source, %error, "no longer waits for a probe");
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
    // Boxed, since the kinds of probes together make a large future.
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
        connect: CONNECT_LIMIT,
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
                // A greeting that failed during the previous round may succeed now.
                _ => call.dial().await?,
            };
            reply.rtt_s = ping::round_trip_s(&mut connection.stream).await?;
            connection.round_trip = Duration::from_secs_f64(reply.rtt_s);
            connection.start = began + kind.pause();
            let meter = Meter::start();
            let result = kind.ask(&call, connection, reply).await;
            reply.sender_cpu = reply.sender_cpu.or(meter.share());
            reply.sender_withheld = Some(meter.withheld());
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
    // Whether the probe failed before its peer knew of it: the pings are the first messages after the welcome.
    let unheard = |error: &WorkError| {
        let peer_knows = matches!(error, WorkError::Handshake(_) | WorkError::Late { .. });
        reply.rtt_s == 0.0 && !peer_knows && ![Failure::Unreachable, Failure::Vanished].contains(&error.failure())
    };
    if result.as_ref().is_err_and(unheard) {
        // A peer that does not get this message waits until its patience ends.
        if let Err(error) = excuse(&plain, probe.round).await {
            debug!(%error, "could not tell the peer that the probe will not come");
        }
    }
    result
}

/// The address of a probe's peer. Only bulk probes may go to the agent itself, across loopback.
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
