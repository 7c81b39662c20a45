//! Agents on loopback addresses, each with its own control socket, and a controller's view of them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gavotte_agent::contract::agents::{
    Budget, Bulk, BurstTrain, EnrolRequest, Expect, HealthRequest, MeasureRequest, Moved, PaceRequest, Peer, Probe,
    ProbeReply, ReleaseRequest, ReplayReply, ReplayRequest, StartRequest, Transfer, TransferDone, probe::Kind,
    replay_reply::Event,
};
use gavotte_agent::control::serve::{Options, serve};
use gavotte_agent::control::socket::ControlSocket;
use gavotte_agent::hold::Caps;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use self::calls::agent_client::AgentClient;

/// The client generated from `proto/gavotte/agents`.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]
mod calls {
    include!("../../generated/client.rs");
}

pub(crate) const RUN: &str = "run-1";
pub(crate) const SECRET: [u8; 32] = [7; 32];
pub(crate) const CAPS: Caps = Caps {
    max_bytes: 1_000_000_000_000,
    max_time: Duration::from_secs(120),
};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A directory for one test's sockets. Its path is short enough for a socket's, and it is removed with the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gavotte-test-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("agent.sock")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) async fn client(path: &std::path::Path) -> AgentClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", path.display())).unwrap();
    AgentClient::new(endpoint.connect().await.unwrap())
}

/// A running agent.
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) ip: IpAddr,
    pub(crate) port: u16,
    pub(crate) client: AgentClient<Channel>,
    stopping: oneshot::Sender<()>,
    _scratch: Scratch,
}

impl Agent {
    pub(crate) async fn start(name: &str, ip: impl Into<IpAddr>) -> Self {
        let ip = ip.into();
        let scratch = Scratch::new();
        let path = scratch.socket();
        let (socket, control) = ControlSocket::bind(&path).unwrap();
        let options = Options {
            bind: Some(ip),
            data_port: 0,
            caps: CAPS,
            state: None,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let _socket = socket;
            serve(options, control, async { drop(stopped.await) }).await.unwrap();
        });
        let mut client = client(&path).await;
        let health = client.health(HealthRequest {}).await.unwrap().into_inner();
        Self {
            name: name.into(),
            ip,
            port: health.data_port as u16,
            client,
            stopping: stop,
            _scratch: scratch,
        }
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer {
            name: self.name.clone(),
            address: self.ip.to_string(),
            data_port: self.port.into(),
            origins: Vec::new(),
        }
    }

    pub(crate) fn data(&self) -> SocketAddr {
        (self.ip, self.port).into()
    }

    pub(crate) async fn enrol(&self, request: EnrolRequest) -> Result<Budget, Status> {
        let reply = self.client.clone().enrol(request).await?;
        Ok(reply.into_inner().budget.unwrap())
    }

    pub(crate) async fn release(&self) -> u64 {
        let request = ReleaseRequest { run_id: RUN.into() };
        self.client
            .clone()
            .release(request)
            .await
            .unwrap()
            .into_inner()
            .bytes_sent
    }

    /// Ends the agent, and waits until its data port no longer accepts connections.
    pub(crate) async fn stop(self) {
        let data = self.data();
        drop(self.stopping);
        while tokio::net::TcpStream::connect(data).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn is_well(&self) -> bool {
        self.client.clone().health(HealthRequest {}).await.is_ok()
    }
}

/// Starts three agents on 127.0.0.1, .2 and .3, which are not enrolled yet.
pub(crate) async fn three() -> [Agent; 3] {
    [
        Agent::start("a", [127, 0, 0, 1]).await,
        Agent::start("b", [127, 0, 0, 2]).await,
        Agent::start("c", [127, 0, 0, 3]).await,
    ]
}

pub(crate) fn enrolment(own: &Agent, agents: &[Agent]) -> EnrolRequest {
    EnrolRequest {
        run_id: RUN.into(),
        secret: SECRET.to_vec(),
        self_: own.name.clone(),
        peers: agents.iter().map(Agent::peer).collect(),
        ..EnrolRequest::default()
    }
}

pub(crate) async fn enrol(agents: &[Agent]) {
    for agent in agents {
        agent.enrol(enrolment(agent, agents)).await.unwrap();
    }
}

/// One agent's part of a schedule.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) probes: Vec<(u32, &'static str, Kind)>,
    pub(crate) receives: Vec<(u32, &'static str)>,
    pub(crate) wait_s: f64,
}

/// Sends a short train from one named agent to another and returns the sender's reply.
pub(crate) async fn short_train(from: (&Agent, &'static str), to: (&Agent, &'static str)) -> ProbeReply {
    let train = Kind::BurstTrain(BurstTrain {
        bursts: 2,
        packets: 20,
        payload_bytes: 500,
        gap_s: 0.0,
    });
    let sends = Part {
        probes: vec![(0, to.1, train)],
        ..Part::default()
    };
    let receives = Part {
        receives: vec![(0, from.1)],
        ..Part::default()
    };
    let (sent, _) = tokio::join!(measure(from.0, sends), measure(to.0, receives));
    sent.unwrap().remove(0)
}

pub(crate) async fn measure(agent: &Agent, part: Part) -> Result<Vec<ProbeReply>, Status> {
    let request = MeasureRequest {
        run_id: RUN.into(),
        probes: part
            .probes
            .into_iter()
            .map(|(round, peer, kind)| Probe {
                round,
                peer: peer.into(),
                kind: Some(kind),
            })
            .collect(),
        receives: part
            .receives
            .into_iter()
            .map(|(round, peer)| Expect {
                round,
                peer: peer.into(),
            })
            .collect(),
        wait_s: if part.wait_s > 0.0 { part.wait_s } else { 20.0 },
        rounds: 100,
    };
    collect(agent.client.clone().measure(request).await?.into_inner()).await
}

async fn collect<T>(mut stream: Streaming<T>) -> Result<Vec<T>, Status> {
    let mut all = Vec::new();
    while let Some(next) = stream.message().await? {
        all.push(next);
    }
    Ok(all)
}

/// A replay that has reported it is ready.
pub(crate) struct Replaying {
    pub(crate) connected: u32,
    stream: Streaming<ReplayReply>,
}

pub(crate) fn transfer(id: u32, target: &str, bytes: u64) -> Transfer {
    Transfer {
        id,
        target: target.into(),
        bytes,
        ..Transfer::default()
    }
}

pub(crate) async fn replay(agent: &Agent, replay_id: &str, transfers: Vec<Transfer>) -> Result<Replaying, Status> {
    replay_telling(agent, replay_id, transfers, 0.0).await
}

/// Starts a replay that reports every `report_s` which bytes have moved.
pub(crate) async fn replay_telling(
    agent: &Agent,
    replay_id: &str,
    transfers: Vec<Transfer>,
    report_s: f64,
) -> Result<Replaying, Status> {
    let request = ReplayRequest {
        run_id: RUN.into(),
        replay_id: replay_id.into(),
        transfers,
        congestion: String::new(),
        max_seconds: 60.0,
        report_s,
    };
    let mut stream = agent.client.clone().replay(request).await?.into_inner();
    let Some(Event::Ready(ready)) = stream.message().await?.unwrap().event else {
        panic!("not ready first")
    };
    Ok(Replaying {
        connected: ready.connected,
        stream,
    })
}

pub(crate) async fn start(agent: &Agent, replay_id: &str) -> Result<(), Status> {
    let request = StartRequest {
        run_id: RUN.into(),
        replay_id: replay_id.into(),
    };
    agent.client.clone().start(request).await.map(|_| ())
}

pub(crate) async fn pace(agent: &Agent, replay_id: &str, id: u32, pace_bps: u64) -> Result<(), Status> {
    let request = PaceRequest {
        run_id: RUN.into(),
        replay_id: replay_id.into(),
        ids: vec![id],
        paces_bps: vec![pace_bps],
    };
    agent.client.clone().pace(request).await.map(|_| ())
}

impl Replaying {
    /// The result of each transfer, by id.
    pub(crate) async fn done(self) -> Vec<TransferDone> {
        let (done, moved) = self.with_reports().await;
        assert!(moved.is_empty(), "{moved:?}");
        done
    }

    /// The results, and the reports of moved bytes before them.
    pub(crate) async fn with_reports(self) -> (Vec<TransferDone>, Vec<Moved>) {
        let (mut done, mut moved) = (Vec::new(), Vec::new());
        for reply in collect(self.stream).await.unwrap() {
            match reply.event {
                Some(Event::Done(one)) => done.push(one),
                Some(Event::Moved(one)) => moved.push(one),
                other => panic!("{other:?}"),
            }
        }
        done.sort_by_key(|done| done.id);
        (done, moved)
    }
}

/// A short train.
pub(crate) fn train() -> Kind {
    Kind::BurstTrain(BurstTrain {
        bursts: 5,
        packets: 50,
        payload_bytes: 1000,
        gap_s: 0.001,
    })
}

/// A bulk probe with bins of 10 ms.
pub(crate) fn bulk(seconds: f64, flows: u32) -> Kind {
    Kind::Bulk(Bulk {
        seconds,
        flows,
        congestion: "reno".into(),
        bin_s: 0.01,
        copy: false,
        engine: 0,
        max_bytes: 0,
        settled: false,
        mtu_bytes: 0,
    })
}
