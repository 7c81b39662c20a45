//! The agent's gRPC service: checks each request, finds its session and hands the work on.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::contract::agents::{
    DropReply, DropRequest, EnrolReply, EnrolRequest, HealthReply, HealthRequest, MeasureRequest, ProbeReply,
    ReleaseReply, ReleaseRequest, ReplayReply, ReplayRequest, StartReply, StartRequest, agent_server::Agent,
};
use crate::host;
use crate::measure::{self, Schedule};
use crate::plane::Plane;
use crate::replay::{self, MAX_TRANSFERS, ReplayError, Replays};
use crate::session::SessionError;

/// Replies that may wait for a slow controller.
const PENDING_REPLIES: usize = 64;

/// Serves one agent.
#[derive(Clone, Debug)]
pub struct Service {
    plane: Arc<Plane>,
}

impl Service {
    /// Serves the agent of this data plane.
    pub fn new(plane: Arc<Plane>) -> Self {
        Self { plane }
    }
}

impl From<SessionError> for Status {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Invalid(text) => Self::invalid_argument(text),
            other => Self::failed_precondition(other.to_string()),
        }
    }
}

impl From<ReplayError> for Status {
    fn from(error: ReplayError) -> Self {
        let text = error.to_string();
        match error {
            ReplayError::Exists => Self::already_exists(text),
            ReplayError::Unknown => Self::not_found(text),
            ReplayError::NotReady | ReplayError::Started => Self::failed_precondition(text),
        }
    }
}

#[tonic::async_trait]
impl Agent for Service {
    type MeasureStream = ReceiverStream<Result<ProbeReply, Status>>;
    type ReplayStream = ReceiverStream<Result<ReplayReply, Status>>;

    async fn health(&self, _: Request<HealthRequest>) -> Result<Response<HealthReply>, Status> {
        let run_id = self
            .plane
            .sessions
            .current()
            .map(|session| session.run_id.clone())
            .unwrap_or_default();
        Ok(Response::new(host::health(self.plane.port, run_id)))
    }

    async fn enrol(&self, request: Request<EnrolRequest>) -> Result<Response<EnrolReply>, Status> {
        let session = self.plane.sessions.enrol(request.into_inner())?;
        Ok(Response::new(EnrolReply {
            budget: Some(session.granted()),
        }))
    }

    async fn measure(&self, request: Request<MeasureRequest>) -> Result<Response<Self::MeasureStream>, Status> {
        let request = request.into_inner();
        let session = self.plane.sessions.of(&request.run_id)?;
        let schedule = Schedule::new(request).map_err(Status::invalid_argument)?;
        let Some(measuring) = session.begin_measuring() else {
            return Err(Status::failed_precondition("a schedule is under way"));
        };
        let (replies, stream) = mpsc::channel(PENDING_REPLIES);
        let plane = Arc::clone(&self.plane);
        tokio::spawn(async move {
            measure::run(plane, session, schedule, replies).await;
            drop(measuring);
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn replay(&self, request: Request<ReplayRequest>) -> Result<Response<Self::ReplayStream>, Status> {
        let request = request.into_inner();
        let session = self.plane.sessions.of(&request.run_id)?;
        if request.transfers.len() > MAX_TRANSFERS {
            let text = format!("transfers: at most {MAX_TRANSFERS}, not {}", request.transfers.len());
            return Err(Status::invalid_argument(text));
        }
        let limit = replay::limit(request.max_seconds).map_err(Status::invalid_argument)?;
        let replay = Replays::begin(&session, &request.replay_id)?;
        let (replies, stream) = mpsc::channel(PENDING_REPLIES);
        tokio::spawn(replay::run(Arc::clone(&self.plane), replay, request, limit, replies));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn start(&self, request: Request<StartRequest>) -> Result<Response<StartReply>, Status> {
        let request = request.into_inner();
        self.plane
            .sessions
            .of(&request.run_id)?
            .replays
            .start(&request.replay_id)?;
        Ok(Response::new(StartReply {}))
    }

    async fn drop(&self, request: Request<DropRequest>) -> Result<Response<DropReply>, Status> {
        let request = request.into_inner();
        let session = self.plane.sessions.of(&request.run_id)?;
        session
            .drop_peer(&request.peer, &request.reason)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok(Response::new(DropReply {}))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseReply>, Status> {
        let session = self.plane.sessions.release(&request.into_inner().run_id)?;
        Ok(Response::new(ReleaseReply {
            bytes_sent: session.budget.taken(),
        }))
    }
}
