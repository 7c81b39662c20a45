//! Runs a schedule: round after round, the agent sends its probe and takes part as receiver at the same time.
//!
//! A probe that fails is answered with its error and the schedule goes on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gavotte_probe::train::Shape;
use tokio::sync::mpsc;
use tonic::Status;

use crate::bulk::{self, Plan};
use crate::contract::agents::{BulkEngine, MeasureRequest, Probe, ProbeReply, probe::Kind, probe_reply};
use crate::contract::data::{PingPongWork, TrainWork, hello::Work};
use crate::cpu::Meter;
use crate::dial::{Connection, dial};
use crate::error::WorkError;
use crate::plane::Plane;
use crate::session::Session;
use crate::{gated, iperf, ping, pingpong, route, train};

/// How long to wait for a peer when the schedule does not say.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// Longest such wait.
pub const MAX_WAIT: Duration = Duration::from_secs(600);
/// How long a peer may take to hear that a probe will not come.
const EXCUSE_LIMIT: Duration = Duration::from_secs(5);

/// A checked schedule.
#[derive(Debug)]
pub struct Schedule {
    turns: BTreeMap<u32, Turn>,
    wait: Duration,
}

#[derive(Debug, Default)]
struct Turn {
    probe: Option<Probe>,
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
            if turn.probe.is_some() {
                return Err(format!("two probes in round {}", probe.round));
            }
            turn.probe = Some(probe);
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

/// Runs the schedule and sends each probe's reply as it is known. Stops when the session is over (the probes that are
/// left are answered so) or nobody listens any more.
pub async fn run(
    plane: Arc<Plane>,
    session: Arc<Session>,
    schedule: Schedule,
    replies: mpsc::Sender<Result<ProbeReply, Status>>,
) {
    let start = Instant::now();
    for (round, turn) in schedule.turns {
        session.rounds.enter(round, &turn.sources);
        let sending = async {
            let Some(probe) = turn.probe else { return true };
            let reply = answer(&plane, &session, &probe, schedule.wait, start).await;
            replies.send(Ok(reply)).await.is_ok()
        };
        let receiving = session.holding(async {
            session.rounds.received(schedule.wait).await;
            Ok(())
        });
        tokio::select! {
            // A session that is over ends both.
            (listened, _) = async { tokio::join!(sending, receiving) } => {
                if !listened {
                    return;
                }
            }
            () = replies.closed() => return,
        }
    }
}

async fn answer(
    plane: &Arc<Plane>,
    session: &Arc<Session>,
    probe: &Probe,
    wait: Duration,
    start: Instant,
) -> ProbeReply {
    let mut reply = ProbeReply {
        round: probe.round,
        peer: probe.peer.clone(),
        ..ProbeReply::default()
    };
    let began = Instant::now();
    reply.started_s = began.duration_since(start).as_secs_f64();
    let mut bytes_sent = 0;
    let attempt = Attempt {
        plane,
        session,
        round: probe.round,
        wait,
    };
    // Boxed: the kinds of probes make a future of 16 kB together.
    let work = Box::pin(attempt.run(probe, &mut reply, &mut bytes_sent));
    let result = session.holding(session.dropped.unless(&probe.peer, work)).await;
    if let Err(error) = result {
        reply.unreachable = error.is_unreachable();
        reply.error = error.to_string();
    }
    reply.bytes_sent = bytes_sent;
    reply.seconds = began.elapsed().as_secs_f64();
    reply
}

struct Attempt<'a> {
    plane: &'a Arc<Plane>,
    session: &'a Arc<Session>,
    round: u32,
    wait: Duration,
}

impl Attempt<'_> {
    async fn run(&self, probe: &Probe, reply: &mut ProbeReply, bytes_sent: &mut u64) -> Result<(), WorkError> {
        let peer = self.session.peers.get(&probe.peer)?;
        let result = match &probe.kind {
            Some(Kind::BurstTrain(asked)) => {
                match Shape::new(asked.bursts, asked.packets, asked.payload_bytes, asked.gap_s) {
                    Ok(shape) => self.train(peer, shape, reply, bytes_sent).await,
                    Err(error) => Err(error.into()),
                }
            }
            Some(Kind::Bulk(asked)) => match Plan::new(asked) {
                Ok(plan) => {
                    let iperf = asked.engine() == BulkEngine::Iperf3;
                    self.bulk(peer, &plan, iperf, reply, bytes_sent).await
                }
                Err(error) => Err(error),
            },
            Some(Kind::GatedTrain(asked)) => match gated::Plan::new(asked) {
                Ok(plan) => self.gated(peer, plan, reply, bytes_sent).await,
                Err(error) => Err(error),
            },
            Some(Kind::PingPong(asked)) => match pingpong::Plan::new(asked) {
                Ok(plan) => self.pingpong(peer, &plan, reply, bytes_sent).await,
                Err(error) => Err(error),
            },
            Some(Kind::Traceroute(asked)) => match route::Plan::new(asked) {
                Ok(plan) => self.traceroute(peer, plan, reply).await,
                Err(error) => Err(error),
            },
            None => Err(WorkError::Request("no kind of probe that this version knows".into())),
        };
        // A probe that failed before its peer heard of it: the pings are the first thing after the welcome.
        let unheard = |error: &WorkError| {
            let told = matches!(error, WorkError::Handshake(_) | WorkError::Late { .. });
            reply.rtt_s == 0.0 && !told && !error.is_unreachable()
        };
        if result.as_ref().is_err_and(unheard) {
            self.excuse(peer).await;
        }
        result
    }

    async fn train(
        &self,
        peer: SocketAddr,
        shape: Shape,
        reply: &mut ProbeReply,
        bytes_sent: &mut u64,
    ) -> Result<(), WorkError> {
        let mut reservation = self.session.budget.reserve(shape.total_bytes())?;
        let work = Work::Train(TrainWork {
            round: self.round,
            bursts: shape.bursts(),
            packets: shape.packets(),
            payload_bytes: shape.payload_bytes(),
            gap_s: shape.gap().as_secs_f64(),
        });
        let mut connection = dial(self.plane, self.session, peer, "", work, self.wait).await?;
        let meter = warm_up(&mut connection, reply).await?;
        let sent = train::send(
            self.plane,
            self.session,
            peer,
            shape,
            connection,
            reply.rtt_s,
            bytes_sent,
        )
        .await;
        reservation.spend(*bytes_sent);
        reply.sender_cpu = meter.share();
        let outcome = sent?;
        reply.hops = outcome.hops;
        reply.receiver_cpu = outcome.receiver_cpu;
        reply.result = Some(probe_reply::Result::BurstTrain(outcome.result));
        outcome.error.map_or(Ok(()), Err)
    }

    async fn bulk(
        &self,
        peer: SocketAddr,
        plan: &Plan,
        iperf: bool,
        reply: &mut ProbeReply,
        bytes_sent: &mut u64,
    ) -> Result<(), WorkError> {
        let probe = bulk::Probe {
            plan,
            peer,
            round: self.round,
            wait: self.wait,
        };
        if iperf {
            return iperf::send(self.plane, self.session, &probe, reply, bytes_sent).await;
        }
        let work = plan.work(self.round);
        let mut first = dial(self.plane, self.session, peer, plan.congestion(), work, self.wait).await?;
        let meter = warm_up(&mut first, reply).await?;
        let (result, receiver_cpu) = bulk::send(self.plane, self.session, &probe, first, bytes_sent).await?;
        reply.sender_cpu = meter.share();
        reply.receiver_cpu = receiver_cpu;
        reply.result = Some(probe_reply::Result::Bulk(result));
        Ok(())
    }

    async fn gated(
        &self,
        peer: SocketAddr,
        plan: gated::Plan,
        reply: &mut ProbeReply,
        bytes_sent: &mut u64,
    ) -> Result<(), WorkError> {
        let mut reservation = self.session.budget.reserve(plan.max_bytes())?;
        let work = plan.work(self.round);
        let mut connection = dial(self.plane, self.session, peer, "", work, self.wait).await?;
        let meter = warm_up(&mut connection, reply).await?;
        let sent = gated::send(self.plane, self.session, peer, plan, connection, bytes_sent).await;
        reservation.spend(*bytes_sent);
        reply.sender_cpu = meter.share();
        let outcome = sent?;
        reply.hops = outcome.hops;
        reply.receiver_cpu = outcome.receiver_cpu;
        reply.result = Some(probe_reply::Result::GatedTrain(outcome.result));
        outcome.error.map_or(Ok(()), Err)
    }

    async fn pingpong(
        &self,
        peer: SocketAddr,
        plan: &pingpong::Plan,
        reply: &mut ProbeReply,
        bytes_sent: &mut u64,
    ) -> Result<(), WorkError> {
        let work = plan.work(self.round);
        let mut connection = dial(self.plane, self.session, peer, plan.congestion(), work, self.wait).await?;
        let meter = warm_up(&mut connection, reply).await?;
        let result = pingpong::play(&connection.stream, &self.session.budget, plan, bytes_sent).await?;
        reply.sender_cpu = meter.share();
        reply.result = Some(probe_reply::Result::PingPong(result));
        Ok(())
    }

    async fn traceroute(&self, peer: SocketAddr, plan: route::Plan, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let visit = Work::PingPong(PingPongWork {
            round: self.round,
            ..PingPongWork::default()
        });
        let mut connection = dial(self.plane, self.session, peer, "", visit, self.wait).await?;
        reply.rtt_s = ping::round_trip_s(&mut connection.stream).await?;
        let result = route::trace(self.plane, peer.ip(), plan).await?;
        if result.reached {
            reply.hops = result.hops.len() as u32;
        }
        reply.result = Some(probe_reply::Result::Traceroute(result));
        Ok(())
    }

    /// Tells a peer that waits for a probe that it will not come: a train of nothing, which the peer refuses
    /// and takes for this round's visit.
    async fn excuse(&self, peer: SocketAddr) {
        let nothing = Work::Train(TrainWork {
            round: self.round,
            ..TrainWork::default()
        });
        let _ = dial(self.plane, self.session, peer, "", nothing, EXCUSE_LIMIT).await;
    }
}

/// The pings before a probe; what follows is what the cores are watched for.
async fn warm_up(connection: &mut Connection, reply: &mut ProbeReply) -> Result<Meter, WorkError> {
    reply.rtt_s = ping::round_trip_s(&mut connection.stream).await?;
    Ok(Meter::start())
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
            .map(|(round, turn)| (*round, turn.probe.is_some(), turn.sources.len()))
            .collect();
        assert_eq!(turns, [(0, true, 0), (2, true, 2), (3, false, 1)]);
        assert_eq!(schedule.wait, DEFAULT_WAIT);
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
