//! The door of the data plane: who may come in, and what they may do there.
//!
//! A connection from an address that is not enrolled is dropped before a byte of it is read. An enrolled one is challenged
//! and must answer with the run's secret. Only then does the agent look at what it wants.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gavotte_probe::sockets::receiver::TrainReceiver;
use gavotte_probe::sockets::tcp;
use gavotte_probe::train::Shape;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::contract::data::{
    GatedWork, Hello, IperfWork, PingPongWork, Report, StreamWork, TrainWork, Welcome, hello::Work,
};
use crate::cpu::Meter;
use crate::dial::patience;
use crate::error::{WorkError, within};
use crate::handshake::{self, Channel};
use crate::ping;
use crate::plane::Plane;
use crate::session::Session;
use crate::{gated, iperf, pingpong, stream, train};

/// Connections that may be greeting at one time.
const GREETERS: usize = 1024;
/// How long a stranger may take to answer the challenge.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may wait for its round, or for the train before it to end.
const PARKING_LIMIT: Duration = Duration::from_secs(600);
/// Longest stream without a length.
pub const MAX_STREAM_TIME: Duration = Duration::from_secs(3600);
/// How long a stream may go on after its sender's time: what the kernel had queued must still arrive.
const STREAM_TAIL: Duration = Duration::from_secs(30);
/// Pause after a failed accept, such as one for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections for as long as the agent lives.
pub async fn run(plane: Arc<Plane>, listener: TcpListener) {
    let greeters = Arc::new(Semaphore::new(GREETERS));
    loop {
        let Ok(permit) = Arc::clone(&greeters).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Some(guest) = Guest::admit(&plane, stream) {
                    tokio::spawn(guest.serve(permit));
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// A connection from an enrolled address.
struct Guest {
    plane: Arc<Plane>,
    session: Arc<Session>,
    stream: TcpStream,
    remote: IpAddr,
    local: IpAddr,
}

impl Guest {
    fn admit(plane: &Arc<Plane>, stream: TcpStream) -> Option<Self> {
        let session = plane.sessions.current()?;
        let remote = stream.peer_addr().ok()?.ip().to_canonical();
        let local = stream.local_addr().ok()?.ip().to_canonical();
        if !session.peers.admit(remote, local) {
            return None;
        }
        stream.set_nodelay(true).ok()?;
        Some(Self {
            plane: Arc::clone(plane),
            session,
            stream,
            remote,
            local,
        })
    }

    /// Greets the connection and does what it asks. A failure ends the connection, which the other side notices.
    async fn serve(mut self, permit: OwnedSemaphorePermit) {
        let session = Arc::clone(&self.session);
        let serving = async move {
            let greeting = handshake::accept(&mut self.stream, &self.session.secret, rand::random());
            let (channel, hello) = within("greet", GREETING_LIMIT, greeting).await?;
            drop(permit);
            self.work(channel, hello).await
        };
        let _ = session.holding(serving).await;
    }

    async fn work(mut self, mut channel: Channel, mut hello: Hello) -> Result<(), WorkError> {
        let work = hello.work.take();
        let refusal = if hello.run_id != self.session.run_id {
            Some(format!("this agent belongs to run `{}`", self.session.run_id))
        } else if !self.session.peers.is_at(&hello.source, self.remote, self.local) {
            Some(format!("`{}` is not enrolled at {}", hello.source, self.remote))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return refuse(&mut self.stream, &mut channel, refusal).await;
        }
        let session = Arc::clone(&self.session);
        session
            .dropped
            .unless(&hello.source, self.serve_work(channel, &hello.source, work))
            .await
    }

    async fn serve_work(mut self, mut channel: Channel, source: &str, work: Option<Work>) -> Result<(), WorkError> {
        if let Some(patience) = work.as_ref().and_then(patience) {
            tcp::set_patience(&self.stream, patience)?;
        }
        let session = Arc::clone(&self.session);
        let _present = match work.as_ref().and_then(round) {
            None => None,
            Some(round) => {
                let admitted = session.rounds.admit(round, source);
                match parked(&session, &self.stream, round, source, admitted).await? {
                    Ok(admission) => Some(admission),
                    Err(error) => return refuse(&mut self.stream, &mut channel, error.to_string()).await,
                }
            }
        };
        match work {
            Some(Work::Train(work)) => self.train(channel, source, work).await,
            Some(Work::Gated(work)) => self.gated(channel, source, work).await,
            Some(Work::PingPong(work)) => self.pingpong(channel, work).await,
            Some(Work::Stream(work)) if work.bytes > 0 => self.transfer(channel, work).await,
            Some(Work::Stream(work)) => self.bulk(channel, work).await,
            Some(Work::Iperf(work)) => self.iperf(channel, work).await,
            None => refuse(&mut self.stream, &mut channel, "no work that this version knows".into()).await,
        }
    }

    async fn train(mut self, mut channel: Channel, source: &str, work: TrainWork) -> Result<(), WorkError> {
        let shape = match Shape::new(work.bursts, work.packets, work.payload_bytes, work.gap_s) {
            Ok(shape) => shape,
            Err(error) => return refuse(&mut self.stream, &mut channel, error.to_string()).await,
        };
        let (receiver, probe_id) = self.welcome(&mut channel, work.round, source).await?;
        ping::echo(&mut self.stream).await?;
        train::receive(
            &self.session,
            self.stream,
            channel,
            receiver,
            self.remote,
            probe_id,
            shape,
        )
        .await
    }

    async fn gated(mut self, mut channel: Channel, source: &str, work: GatedWork) -> Result<(), WorkError> {
        let plan = match gated::Plan::of_work(&work) {
            Ok(plan) => plan,
            Err(error) => return refuse(&mut self.stream, &mut channel, error.to_string()).await,
        };
        let (receiver, probe_id) = self.welcome(&mut channel, work.round, source).await?;
        ping::echo(&mut self.stream).await?;
        gated::receive(
            &self.session,
            self.stream,
            channel,
            receiver,
            self.remote,
            probe_id,
            plan,
        )
        .await
    }

    async fn pingpong(mut self, mut channel: Channel, work: PingPongWork) -> Result<(), WorkError> {
        let plan = match pingpong::Plan::of_work(&work) {
            Ok(plan) => plan,
            Err(error) => return refuse(&mut self.stream, &mut channel, error.to_string()).await,
        };
        if let Err(error) = pingpong::pin(&self.stream, &plan) {
            return refuse(&mut self.stream, &mut channel, error.to_string()).await;
        }
        channel.send(&mut self.stream, &Welcome::default()).await?;
        ping::echo(&mut self.stream).await?;
        pingpong::answer(&self.stream, &self.session.budget, &plan).await
    }

    /// Takes the one socket that trains arrive at, once the train before has ended, and says welcome.
    async fn welcome(
        &mut self,
        channel: &mut Channel,
        round: u32,
        source: &str,
    ) -> Result<(OwnedMutexGuard<TrainReceiver>, u64), WorkError> {
        let free = Arc::clone(&self.plane.receiver).lock_owned();
        let mut receiver = parked(&self.session, &self.stream, round, source, free).await?;
        receiver.drain()?;
        let probe_id = rand::random();
        let welcome = Welcome {
            probe_id,
            refusal: String::new(),
        };
        channel.send(&mut self.stream, &welcome).await?;
        Ok((receiver, probe_id))
    }

    async fn bulk(mut self, mut channel: Channel, work: StreamWork) -> Result<(), WorkError> {
        let Some(time) = stream_time(work.seconds) else {
            let refusal = format!("a stream of {} s", work.seconds);
            return refuse(&mut self.stream, &mut channel, refusal).await;
        };
        channel.send(&mut self.stream, &Welcome::default()).await?;
        ping::echo(&mut self.stream).await?;
        // The stream begins when all flows of the probe have said hello, which takes a while.
        let limit = ping::LIMIT + time + STREAM_TAIL;
        let meter = Meter::start();
        let counter = within(
            "receive the stream",
            limit,
            stream::receive(&self.stream, 0, work.bin_s),
        )
        .await?;
        let report = Report {
            cpu: meter.share(),
            ..counter.report()
        };
        channel.send(&mut self.stream, &report).await?;
        Ok(())
    }

    async fn iperf(mut self, mut channel: Channel, work: IperfWork) -> Result<(), WorkError> {
        let Some(time) = stream_time(work.seconds) else {
            let refusal = format!("a test of {} s", work.seconds);
            return refuse(&mut self.stream, &mut channel, refusal).await;
        };
        channel.send(&mut self.stream, &Welcome::default()).await?;
        ping::echo(&mut self.stream).await?;
        iperf::serve(self.stream, channel, time).await
    }

    async fn transfer(mut self, mut channel: Channel, work: StreamWork) -> Result<(), WorkError> {
        channel.send(&mut self.stream, &Welcome::default()).await?;
        // A transfer starts when its controller says so and is over with the session at the latest.
        let counter = stream::receive(&self.stream, work.bytes, work.bin_s).await?;
        channel.send(&mut self.stream, &counter.report()).await?;
        Ok(())
    }
}

/// The round that work belongs to. A transfer belongs to none: its controller says when it starts.
fn round(work: &Work) -> Option<u32> {
    match work {
        Work::Train(work) => Some(work.round),
        Work::Gated(work) => Some(work.round),
        Work::PingPong(work) => Some(work.round),
        Work::Stream(work) => (work.bytes == 0).then_some(work.round),
        Work::Iperf(work) => Some(work.round),
    }
}

/// A stream's duration, if it is above 0 and bounded.
pub fn stream_time(seconds: f64) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    (!time.is_zero() && time <= MAX_STREAM_TIME).then_some(time)
}

async fn refuse(stream: &mut TcpStream, channel: &mut Channel, refusal: String) -> Result<(), WorkError> {
    channel.send(stream, &Welcome { probe_id: 0, refusal }).await?;
    Ok(())
}

/// Waits for `ready` while the connection stays silent. The other side has nothing to say until it is welcome, so
/// anything from it means that it gave up.
async fn parked<T>(
    session: &Session,
    stream: &TcpStream,
    round: u32,
    source: &str,
    ready: impl Future<Output = T>,
) -> Result<T, WorkError> {
    let mut byte = [0];
    tokio::select! {
        biased;
        ready = ready => Ok(ready),
        // A peek, since a socket that was read to its last byte still counts as readable once.
        _ = stream.peek(&mut byte) => {
            session.rounds.gave_up(round, source);
            Err(WorkError::Request(format!("`{source}` gave up waiting for round {round}")))
        }
        () = tokio::time::sleep(PARKING_LIMIT) => {
            Err(WorkError::Late { operation: "wait for the round", limit: PARKING_LIMIT })
        }
    }
}
