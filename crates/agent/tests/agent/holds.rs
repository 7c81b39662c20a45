//! Several runs that hold the same agents at the same time.

use gavotte_agent::contract::agents::{
    EnrolRequest, Failure, HoldStatus, JobState, Mode, ReleaseRequest, RenewRequest, ReplayReply, ReplayRequest,
    StartRequest, StatusReply, StatusRequest, TransferDone, replay_reply::Event,
};
use gavotte_agent::contract::data::{Hello, hello::Work};
use gavotte_agent::error::HandshakeError;
use gavotte_agent::hold::secret::Secret;
use gavotte_agent::plane::handshake;
use tokio::net::{TcpSocket, TcpStream};
use tonic::{Code, Streaming};

use crate::support::{Agent, RUN, SECRET, enrol, enrolment, short_train, three, transfer};

const OTHER: &str = "run-2";
const OTHER_SECRET: [u8; 32] = [9; 32];

/// Enrols the other run with a shared hold.
async fn share(agents: &[Agent]) {
    for agent in agents {
        let request = EnrolRequest {
            run_id: OTHER.into(),
            secret: OTHER_SECRET.to_vec(),
            mode: Mode::Shared.into(),
            purpose: "run sort".into(),
            user: "ann".into(),
            ..enrolment(agent, agents)
        };
        agent.enrol(request).await.unwrap();
    }
}

async fn status(agent: &Agent, run_id: &str) -> StatusReply {
    let request = StatusRequest { run_id: run_id.into() };
    agent.client.clone().status(request).await.unwrap().into_inner()
}

/// Connects one transfer of a run to `b`, which waits for its start.
async fn connected(agent: &Agent, run_id: &str, bytes: u64) -> Streaming<ReplayReply> {
    let request = ReplayRequest {
        run_id: run_id.into(),
        replay_id: "phase".into(),
        transfers: vec![transfer(1, "b", bytes)],
        ..ReplayRequest::default()
    };
    let mut stream = agent.client.clone().replay(request).await.unwrap().into_inner();
    let Some(Event::Ready(ready)) = stream.message().await.unwrap().unwrap().event else {
        panic!("not ready first")
    };
    assert_eq!(ready.connected, 1);
    stream
}

async fn start(agent: &Agent, run_id: &str) {
    let request = StartRequest {
        run_id: run_id.into(),
        replay_id: "phase".into(),
    };
    agent.client.clone().start(request).await.unwrap();
}

async fn done(stream: &mut Streaming<ReplayReply>) -> TransferDone {
    match stream.message().await.unwrap().unwrap().event {
        Some(Event::Done(done)) => done,
        other => panic!("{other:?}"),
    }
}

async fn connect(from: [u8; 4], to: &Agent) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((std::net::IpAddr::from(from), 0).into()).unwrap();
    socket.connect(to.data()).await.unwrap()
}

async fn greet(from: [u8; 4], to: &Agent, run_id: &str, secret: [u8; 32], source: &str) -> Result<u64, HandshakeError> {
    let hello = Hello {
        run_id: run_id.into(),
        source: source.into(),
        work: Some(Work::Transfer(transfer(0, "a", 10))),
        ..Hello::default()
    };
    let mut stream = connect(from, to).await;
    let secret = Secret::new(&secret).unwrap();
    let mut channel = handshake::connect(&mut stream, &secret, hello, [5; 16]).await?;
    channel.welcome(&mut stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_ends_and_the_other_goes_on() {
    let agents = three().await;
    enrol(&agents).await;
    share(&agents).await;
    let [a, _, _] = &agents;
    let mut first = connected(a, RUN, 1000).await;
    let mut second = connected(a, OTHER, 2000).await;
    a.release().await;
    start(a, OTHER).await;
    assert_eq!(done(&mut first).await.failure(), Failure::Over);
    let done = done(&mut second).await;
    assert_eq!((done.bytes, done.error.as_str()), (2000, ""));
    let request = ReleaseRequest { run_id: OTHER.into() };
    let sent = a.client.clone().release(request).await.unwrap().into_inner().bytes_sent;
    assert_eq!(sent, 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_has_its_own_secret_and_peers() {
    let agents = three().await;
    enrol(&agents).await;
    let [to, _, c] = &agents;
    // Only `a` and `c` belong to the other run.
    let request = EnrolRequest {
        run_id: OTHER.into(),
        secret: OTHER_SECRET.to_vec(),
        mode: Mode::Shared.into(),
        peers: vec![to.peer(), c.peer()],
        ..enrolment(to, &agents)
    };
    to.enrol(request).await.unwrap();
    let (from_b, from_c) = ([127, 0, 0, 2], [127, 0, 0, 3]);
    greet(from_b, to, RUN, SECRET, "b").await.unwrap();
    for (run_id, secret) in [(RUN, OTHER_SECRET), (OTHER, SECRET), ("run-3", SECRET)] {
        let result = greet(from_b, to, run_id, secret, "b").await;
        assert!(matches!(result, Err(HandshakeError::HungUp)), "{run_id}: {result:?}");
    }
    let stranger = greet(from_b, to, OTHER, OTHER_SECRET, "b").await;
    assert!(matches!(stranger, Err(HandshakeError::Refused { .. })), "{stranger:?}");
    greet(from_c, to, OTHER, OTHER_SECRET, "c").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_measures_hears_of_transfers_beside_it() {
    let agents = three().await;
    enrol(&agents).await;
    share(&agents).await;
    let [a, b, _] = &agents;
    let mut replaying = connected(a, OTHER, 300_000_000_000).await;
    let jobs = |holds: Vec<HoldStatus>| {
        let jobs = holds.into_iter().flat_map(|hold| hold.jobs);
        jobs.map(|job| (job.kind.clone(), job.state())).collect::<Vec<_>>()
    };
    assert_eq!(jobs(status(a, "").await.holds), [("transfer".into(), JobState::Ready)]);
    start(a, OTHER).await;
    assert_eq!(short_train((a, "a"), (b, "b")).await.error, "");
    // The receiver reports it as well, although no controller asked it for the transfer.
    for agent in [a, b] {
        let reply = status(agent, RUN).await;
        let neighbours: Vec<_> = reply
            .beside
            .iter()
            .map(|each| (each.run_id.as_str(), each.user.as_str()))
            .collect();
        assert_eq!(neighbours, [(OTHER, "ann")]);
        let other = reply.holds.into_iter().find(|hold| hold.run_id == OTHER).unwrap();
        assert_eq!((other.purpose.as_str(), other.mode()), ("run sort", Mode::Shared));
        assert_eq!(jobs(vec![other]), [("transfer".into(), JobState::Running)]);
    }
    let request = ReleaseRequest { run_id: OTHER.into() };
    a.client.clone().release(request).await.unwrap();
    assert_eq!(done(&mut replaying).await.failure(), Failure::Over);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_not_renewed_ends_and_cannot_be_renewed() {
    let agents = [Agent::start("a", [127, 0, 0, 1]).await];
    let [a] = &agents;
    let renew = async || a.client.clone().renew(RenewRequest { run_id: RUN.into() }).await;
    assert_eq!(renew().await.unwrap_err().code(), Code::FailedPrecondition);
    let leased = EnrolRequest {
        lease_s: 0.05,
        ..enrolment(a, &agents)
    };
    a.enrol(leased).await.unwrap();
    while !status(a, "").await.holds.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(renew().await.unwrap_err().code(), Code::FailedPrecondition);
    enrol(&agents).await;
    renew().await.unwrap();
    let senseless = EnrolRequest {
        lease_s: f64::NAN,
        ..enrolment(a, &agents)
    };
    assert_eq!(a.enrol(senseless).await.unwrap_err().code(), Code::InvalidArgument);
}
