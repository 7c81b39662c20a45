//! The agent's gRPC service: checks each request, looks up its hold and starts the work.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tracing::{Instrument, info, info_span};

use crate::contract::agents::{
    AttendReply, AttendRequest, BroadcastReply, BroadcastRequest, CallBackReply, CallBackRequest, DiscardReply,
    DiscardRequest, DropReply, DropRequest, EnrolReply, EnrolRequest, ExcuseReply, ExcuseRequest, Failure,
    ForwardReply, ForwardRequest, GreetReply, GreetRequest, GuardReply, GuardRequest, GuardedReply, GuardedRequest,
    HealthReply, HealthRequest, HeardReply, HeardRequest, IntroduceReply, IntroduceRequest, ListenReply, ListenRequest,
    LogsReply, LogsRequest, LookReply, LookRequest, ManifestReply, ManifestRequest, MeasureRequest, Neighbour,
    PaceReply, PaceRequest, ProbeReply, ReadmitReply, ReadmitRequest, ReleaseReply, ReleaseRequest, RenewReply,
    RenewRequest, ReplayReply, ReplayRequest, SpaceReply, SpaceRequest, SpliceReply, SpliceRequest, StartReply,
    StartRequest, StatusReply, StatusRequest, UnguardReply, UnguardRequest, WatchReply, WatchRequest,
    agent_server::Agent,
};
use crate::control::forwarding::{self, MAX_LETTERS};
use crate::control::{host, watching};
use crate::error::WorkError;
use crate::guarantee::{Guarantees, GuardError, orphan};
use crate::hold::HoldError;
use crate::hold::jobs::{JobError, Label};
use crate::log;
use crate::plane::{Plane, pulse};
use crate::work::replay::{self, MAX_TRANSFERS};
use crate::work::schedule::{self, Schedule};
use crate::work::{broadcast, callback, greet};

/// Number of replies that may wait for a slow controller.
const PENDING_REPLIES: usize = 64;
/// Largest number of peers that one call may check.
const MAX_LOOKS: usize = 64;

/// The service of one agent.
#[derive(Clone, Debug)]
pub struct Service {
    plane: Arc<Plane>,
    guarantees: Guarantees,
}

impl Service {
    /// Creates the service for this data plane, with the guarantees of the agent.
    pub fn new(plane: Arc<Plane>, guarantees: Guarantees) -> Self {
        Self { plane, guarantees }
    }
}

impl From<HoldError> for Status {
    fn from(error: HoldError) -> Self {
        let (code, failure) = match &error {
            HoldError::Held { .. } => (Code::FailedPrecondition, Failure::Held),
            HoldError::Full(_) => (Code::ResourceExhausted, Failure::Full),
            HoldError::NotEnrolled(_) => (Code::FailedPrecondition, Failure::NotEnrolled),
            HoldError::Invalid(_) => (Code::InvalidArgument, Failure::Invalid),
        };
        let facts = match &error {
            HoldError::Held {
                lease_left_s, lease_s, ..
            } => vec![
                ("lease_left_s".into(), lease_left_s.to_string()),
                ("lease_s".into(), lease_s.to_string()),
            ],
            _ => Vec::new(),
        };
        refusal(code, failure, error.to_string(), facts)
    }
}

impl From<GuardError> for Status {
    fn from(error: GuardError) -> Self {
        match error {
            GuardError::Invalid(text) => invalid(text),
            GuardError::Hold(error) => error.into(),
            GuardError::Refused(text) => refusal(Code::FailedPrecondition, Failure::Lacking, text, Vec::new()),
        }
    }
}

impl From<JobError> for Status {
    fn from(error: JobError) -> Self {
        let (code, failure) = match error {
            JobError::Exists => (Code::AlreadyExists, Failure::Exists),
            JobError::Unknown => (Code::NotFound, Failure::UnknownJob),
            JobError::NotReady | JobError::Started => (Code::FailedPrecondition, Failure::NotReady),
        };
        refusal(code, failure, error.to_string(), Vec::new())
    }
}

impl From<WorkError> for Status {
    fn from(error: WorkError) -> Self {
        let code = match error.failure() {
            Failure::Invalid => Code::InvalidArgument,
            Failure::UnknownJob => Code::NotFound,
            Failure::File => Code::FailedPrecondition,
            _ => Code::Aborted,
        };
        refusal(code, error.failure(), error.to_string(), Vec::new())
    }
}

/// Returns a status whose code gives the reason of a refusal, with facts for the controller.
fn refusal(code: Code, failure: Failure, text: impl Into<String>, facts: Vec<(String, String)>) -> Status {
    let text = text.into();
    info!(refusal = text, "refused a call");
    let reason = failure.as_str_name().trim_start_matches("FAILURE_");
    let details = ErrorDetails::with_error_info(reason, "gavotte.agents", HashMap::from_iter(facts));
    Status::with_error_details(code, text, details)
}

fn invalid(text: impl Into<String>) -> Status {
    refusal(Code::InvalidArgument, Failure::Invalid, text, Vec::new())
}

#[tonic::async_trait]
impl Agent for Service {
    type AttendStream = ReceiverStream<Result<AttendReply, Status>>;
    type MeasureStream = ReceiverStream<Result<ProbeReply, Status>>;
    type ReplayStream = ReceiverStream<Result<ReplayReply, Status>>;
    type BroadcastStream = ReceiverStream<Result<BroadcastReply, Status>>;
    type ForwardStream = ReceiverStream<Result<ForwardReply, Status>>;
    type WatchStream = ReceiverStream<Result<WatchReply, Status>>;

    async fn health(&self, _: Request<HealthRequest>) -> Result<Response<HealthReply>, Status> {
        let holds = self.plane.holds.list();
        let holder = holds.iter().find(|hold| hold.is_exclusive());
        let run_id = holder.map(|hold| hold.run_id.clone()).unwrap_or_default();
        Ok(Response::new(host::health(self.plane.port, run_id)))
    }

    async fn enrol(&self, request: Request<EnrolRequest>) -> Result<Response<EnrolReply>, Status> {
        let hold = self.plane.holds.enrol(request.into_inner())?;
        Ok(Response::new(EnrolReply {
            budget: Some(hold.granted()),
        }))
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewReply>, Status> {
        self.plane.holds.of(&request.into_inner().run_id)?.renew();
        Ok(Response::new(RenewReply {}))
    }

    async fn attend(&self, request: Request<AttendRequest>) -> Result<Response<Self::AttendStream>, Status> {
        let hold = self.plane.holds.of(&request.into_inner().run_id)?;
        let (replies, stream) = mpsc::channel(1);
        tokio::spawn(async move {
            let _attended = hold.attend();
            tokio::select! {
                () = replies.closed() => {}
                () = hold.over() => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let holds = self.plane.holds.list();
        let run_id = request.into_inner().run_id;
        let own = holds.iter().find(|hold| hold.run_id == run_id);
        let beside = own.map(|hold| hold.jobs.neighbours()).unwrap_or_default();
        let neighbour = |(label, kind): (Label, &str)| Neighbour {
            run_id: label.run_id,
            user: label.user,
            purpose: label.purpose,
            kind: kind.into(),
        };
        Ok(Response::new(StatusReply {
            holds: holds.iter().map(|hold| hold.status()).collect(),
            beside: beside.into_iter().map(neighbour).collect(),
        }))
    }

    async fn measure(&self, request: Request<MeasureRequest>) -> Result<Response<Self::MeasureStream>, Status> {
        let request = request.into_inner();
        let hold = self.plane.holds.of(&request.run_id)?;
        let schedule = Schedule::new(request).map_err(invalid)?;
        let measuring = hold.begin_measuring()?;
        let (replies, stream) = mpsc::channel(PENDING_REPLIES);
        let plane = Arc::clone(&self.plane);
        let span = info_span!("schedule", run = hold.run_id);
        let work = async move {
            schedule::run(plane, hold, schedule, replies).await;
            drop(measuring);
        };
        tokio::spawn(work.instrument(span));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn replay(&self, request: Request<ReplayRequest>) -> Result<Response<Self::ReplayStream>, Status> {
        let request = request.into_inner();
        let hold = self.plane.holds.of(&request.run_id)?;
        if request.transfers.len() > MAX_TRANSFERS {
            let text = format!("transfers: at most {MAX_TRANSFERS}, not {}", request.transfers.len());
            return Err(invalid(text));
        }
        let limit = replay::limit(request.max_seconds).map_err(invalid)?;
        let every = replay::every(request.report_s).map_err(invalid)?;
        let job = hold.jobs.begin(&request.replay_id, "transfer")?;
        let (replies, stream) = mpsc::channel(PENDING_REPLIES);
        let span = info_span!("replay", run = hold.run_id, job = request.replay_id);
        let work = replay::run(Arc::clone(&self.plane), hold, job, request, (limit, every), replies);
        tokio::spawn(work.instrument(span));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn start(&self, request: Request<StartRequest>) -> Result<Response<StartReply>, Status> {
        let request = request.into_inner();
        self.plane.holds.of(&request.run_id)?.jobs.start(&request.replay_id)?;
        Ok(Response::new(StartReply {}))
    }

    async fn pace(&self, request: Request<PaceRequest>) -> Result<Response<PaceReply>, Status> {
        let request = request.into_inner();
        if request.ids.len() != request.paces_bps.len() {
            return Err(invalid("paces_bps: one for each id"));
        }
        let paces = request.ids.into_iter().zip(request.paces_bps).collect();
        let hold = self.plane.holds.of(&request.run_id)?;
        hold.jobs.pace(&request.replay_id, paces)?;
        Ok(Response::new(PaceReply {}))
    }

    async fn space(&self, request: Request<SpaceRequest>) -> Result<Response<SpaceReply>, Status> {
        let request = request.into_inner();
        let hold = self.plane.holds.of(&request.run_id)?;
        let reply = hold.during(broadcast::space(&request)).await?;
        Ok(Response::new(reply))
    }

    async fn manifest(&self, request: Request<ManifestRequest>) -> Result<Response<ManifestReply>, Status> {
        let request = request.into_inner();
        let hold = self.plane.holds.of(&request.run_id)?;
        let manifest = hold.during(broadcast::manifest(&request)).await?;
        Ok(Response::new(manifest))
    }

    async fn discard(&self, request: Request<DiscardRequest>) -> Result<Response<DiscardReply>, Status> {
        let request = request.into_inner();
        let hold = self.plane.holds.of(&request.run_id)?;
        let reply = hold.during(broadcast::discard(&request)).await?;
        Ok(Response::new(reply))
    }

    async fn broadcast(&self, request: Request<BroadcastRequest>) -> Result<Response<Self::BroadcastStream>, Status> {
        let request = request.into_inner();
        let hold = self.plane.holds.of(&request.run_id)?;
        let span = info_span!("broadcast", run = hold.run_id, job = request.broadcast_id);
        let job = hold.jobs.begin(&request.broadcast_id, "broadcast")?;
        let part = broadcast::Part::new(&self.plane, &hold, job, request)?;
        let (replies, stream) = mpsc::channel(PENDING_REPLIES);
        tokio::spawn(part.run(replies).instrument(span));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn splice(&self, request: Request<SpliceRequest>) -> Result<Response<SpliceReply>, Status> {
        let request = request.into_inner();
        let hold = self.plane.holds.of(&request.run_id)?;
        broadcast::splice(&hold, request)?;
        Ok(Response::new(SpliceReply {}))
    }

    async fn drop(&self, request: Request<DropRequest>) -> Result<Response<DropReply>, Status> {
        let request = request.into_inner();
        let hold = self.plane.holds.of(&request.run_id)?;
        hold.drop_peer(&request.peer, &request.reason)
            .map_err(|error| invalid(error.to_string()))?;
        Ok(Response::new(DropReply {}))
    }

    async fn excuse(&self, request: Request<ExcuseRequest>) -> Result<Response<ExcuseReply>, Status> {
        let ExcuseRequest { run_id, round, peer } = request.into_inner();
        let hold = self.plane.holds.of(&run_id)?;
        hold.peers.check(&peer)?;
        hold.rounds.gave_up(round, &peer);
        Ok(Response::new(ExcuseReply {}))
    }

    async fn look(&self, request: Request<LookRequest>) -> Result<Response<LookReply>, Status> {
        let LookRequest { run_id, peers } = request.into_inner();
        if peers.len() > MAX_LOOKS {
            return Err(invalid(format!("peers: at most {MAX_LOOKS}, not {}", peers.len())));
        }
        let hold = self.plane.holds.of(&run_id)?;
        let mut looks = JoinSet::new();
        for peer in peers {
            hold.peers.check(&peer)?;
            // A peer that this host cannot address does not answer.
            let Ok(address) = hold.peers.get(&peer) else { continue };
            let plane = Arc::clone(&self.plane);
            looks.spawn(async move { pulse::answers(&plane, address).await.then_some(peer) });
        }
        let taken = hold.during(async { Ok(looks.join_all().await) }).await?;
        Ok(Response::new(LookReply {
            taken: taken.into_iter().flatten().collect(),
        }))
    }

    async fn listen(&self, request: Request<ListenRequest>) -> Result<Response<ListenReply>, Status> {
        let hold = self.plane.holds.of(&request.into_inner().run_id)?;
        let job = hold.jobs.begin("listen", "greet")?;
        let span = info_span!("listen", run = hold.run_id);
        tokio::spawn(greet::listen(Arc::clone(&self.plane), hold, job).instrument(span));
        Ok(Response::new(ListenReply {}))
    }

    async fn greet(&self, request: Request<GreetRequest>) -> Result<Response<GreetReply>, Status> {
        let GreetRequest {
            run_id,
            peers,
            limit_s,
            tcp_only,
        } = request.into_inner();
        if peers.len() > MAX_LOOKS {
            return Err(invalid(format!("peers: at most {MAX_LOOKS}, not {}", peers.len())));
        }
        let limit = greet::limit(limit_s).map_err(invalid)?;
        let hold = self.plane.holds.of(&run_id)?;
        let greetings = hold
            .during(greet::greet(&self.plane, &hold, peers, tcp_only, limit))
            .await?;
        Ok(Response::new(GreetReply { greetings }))
    }

    async fn call_back(&self, request: Request<CallBackRequest>) -> Result<Response<CallBackReply>, Status> {
        let CallBackRequest { run_id, peers } = request.into_inner();
        let hold = self.plane.holds.of(&run_id)?;
        let span = info_span!("call back", run = hold.run_id);
        let connected = callback::keep(&self.plane, &hold, peers).instrument(span).await?;
        Ok(Response::new(CallBackReply { connected }))
    }

    async fn heard(&self, request: Request<HeardRequest>) -> Result<Response<HeardReply>, Status> {
        let hold = self.plane.holds.of(&request.into_inner().run_id)?;
        Ok(Response::new(HeardReply {
            addresses: greet::heard(&hold),
        }))
    }

    async fn readmit(&self, request: Request<ReadmitRequest>) -> Result<Response<ReadmitReply>, Status> {
        let ReadmitRequest { run_id, peer } = request.into_inner();
        self.plane.holds.of(&run_id)?.readmit(peer.unwrap_or_default())?;
        Ok(Response::new(ReadmitReply {}))
    }

    async fn introduce(&self, request: Request<IntroduceRequest>) -> Result<Response<IntroduceReply>, Status> {
        let IntroduceRequest { run_id, peers } = request.into_inner();
        self.plane.holds.of(&run_id)?.introduce(peers)?;
        Ok(Response::new(IntroduceReply {}))
    }

    async fn forward(&self, request: Request<ForwardRequest>) -> Result<Response<Self::ForwardStream>, Status> {
        let request = request.into_inner();
        if request.letters.len() > MAX_LETTERS {
            let text = format!("letters: at most {MAX_LETTERS}, not {}", request.letters.len());
            return Err(invalid(text));
        }
        let hold = self.plane.holds.of(&request.run_id)?;
        let (replies, stream) = mpsc::channel(PENDING_REPLIES);
        let span = info_span!("forward", run = hold.run_id);
        tokio::spawn(forwarding::run(Arc::clone(&self.plane), hold, request, replies).instrument(span));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn guard(&self, request: Request<GuardRequest>) -> Result<Response<GuardReply>, Status> {
        let reply = self.guarantees.guard(&self.plane.holds, request.into_inner()).await?;
        Ok(Response::new(reply))
    }

    async fn guarded(&self, _: Request<GuardedRequest>) -> Result<Response<GuardedReply>, Status> {
        Ok(Response::new(self.guarantees.status().await.unwrap_or_default()))
    }

    async fn unguard(&self, _: Request<UnguardRequest>) -> Result<Response<UnguardReply>, Status> {
        let status = self.guarantees.status().await;
        let mut devices: Vec<String> = status
            .iter()
            .flat_map(|reply| std::iter::once(reply).chain(&reply.inside))
            .map(|reply| reply.device.clone())
            .filter(|device| !device.is_empty())
            .collect();
        self.guarantees.end().await;
        // Also remove what a killed agent left.
        let swept = tokio::task::spawn_blocking(|| orphan::sweep(false, false)).await;
        devices.extend(swept.ok().and_then(Result::ok).unwrap_or_default());
        Ok(Response::new(UnguardReply { devices }))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let hold = self.plane.holds.of(&request.run_id)?;
        let paces = watching::paces(&request).map_err(invalid)?;
        let watch = watching::begin().await?;
        let (replies, stream) = mpsc::channel(PENDING_REPLIES);
        let span = info_span!("watch", run = hold.run_id);
        tokio::spawn(watching::run(hold, watch, paces, replies).instrument(span));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn logs(&self, request: Request<LogsRequest>) -> Result<Response<LogsReply>, Status> {
        let most = match request.into_inner().entries {
            0 => usize::MAX,
            most => most as usize,
        };
        Ok(Response::new(LogsReply {
            entries: log::last(most),
        }))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseReply>, Status> {
        let hold = self.plane.holds.release(&request.into_inner().run_id)?;
        Ok(Response::new(ReleaseReply {
            bytes_sent: hold.budget.taken(),
        }))
    }
}
