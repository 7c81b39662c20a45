//! The reports of greetings, by protocol.

use std::time::Duration;

use gavotte_agent::contract::agents::{
    EnrolRequest, GreetRequest, Greeting, HeardRequest, ListenRequest, Peer, Reception,
};
use tonic::{Code, Status};

use crate::support::{Agent, RUN, enrol, enrolment, short_train, three};

async fn greet(agent: &Agent, peers: &[&str]) -> Result<Vec<Greeting>, Status> {
    let request = GreetRequest {
        run_id: RUN.into(),
        peers: peers.iter().map(|peer| (*peer).to_owned()).collect(),
        limit_s: 1.0,
        tcp_only: false,
    };
    Ok(agent.client.clone().greet(request).await?.into_inner().greetings)
}

async fn listen(agent: &Agent) -> Result<(), Status> {
    let request = ListenRequest { run_id: RUN.into() };
    agent.client.clone().listen(request).await.map(drop)
}

fn receptions(greetings: &[Greeting]) -> Vec<(&str, Reception, Reception)> {
    let each = greetings.iter();
    each.map(|greeting| (greeting.peer.as_str(), greeting.tcp(), greeting.udp()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_protocol_is_reported_for_itself() {
    let agents = three().await;
    // No program listens at d, over either protocol.
    let closed = Peer {
        name: "d".into(),
        address: "127.0.0.9".into(),
        data_port: agents[0].port.into(),
        origins: Vec::new(),
    };
    for agent in &agents {
        let mut request = enrolment(agent, &agents);
        request.peers.push(closed.clone());
        agent.enrol(request).await.unwrap();
    }
    let [a, b, _c] = agents;
    listen(&b).await.unwrap();
    assert_eq!(listen(&b).await.unwrap_err().code(), Code::AlreadyExists);
    let greetings = greet(&a, &["d", "b", "c"]).await.unwrap();
    assert_eq!(
        receptions(&greetings),
        [
            ("d", Reception::Refused, Reception::Refused),
            ("b", Reception::Answered, Reception::Answered),
            // This agent reads no greetings.
            ("c", Reception::Answered, Reception::Silent),
        ]
    );
    assert!(greetings[0].tcp_error.contains("refused") && greetings[1].udp_error.is_empty());
    let request = HeardRequest { run_id: RUN.into() };
    assert_eq!(
        b.client.clone().heard(request).await.unwrap().into_inner().addresses,
        ["127.0.0.1"]
    );
    assert_eq!(greet(&a, &["z"]).await.unwrap_err().code(), Code::InvalidArgument);
    // A train takes precedence over further greetings.
    let train = short_train((&a, "a"), (&b, "b")).await;
    assert!(train.error.is_empty(), "{}", train.error);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_another_run_turns_greetings_away() {
    let agents = three().await;
    enrol(&agents[..2]).await;
    let [a, b, c] = agents;
    c.enrol(EnrolRequest {
        secret: vec![9; 32],
        ..enrolment(&c, std::slice::from_ref(&a))
    })
    .await
    .unwrap();
    listen(&c).await.unwrap();
    let mut request = enrolment(&a, &[]);
    request.peers = vec![b.peer(), c.peer()];
    a.release().await;
    a.enrol(request).await.unwrap();
    let greetings = greet(&a, &["c"]).await.unwrap();
    assert_eq!(
        receptions(&greetings),
        [("c", Reception::TurnedAway, Reception::Silent)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_ends_with_the_hold() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, c] = agents;
    listen(&b).await.unwrap();
    b.release().await;
    b.enrol(enrolment(&b, &[])).await.unwrap();
    let listens = async {
        while listen(&b).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), listens).await.unwrap();
    drop((a, c));
}
