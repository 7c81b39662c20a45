//! An agent to which no other can connect opens the connections that others need.

use gavotte_agent::contract::agents::{
    CallBackRequest, GreetRequest, Reception, ReleaseRequest, probe_reply::Result as Outcome,
};

use crate::support::{Agent, Part, RUN, bulk, enrolment, measure, replay, start, transfer};

/// A port at which no agent listens.
const CLOSED: u32 = 9;

/// Starts two agents. To agent a, it seems that agent b does not listen.
async fn two() -> [Agent; 2] {
    let agents = [
        Agent::start("a", [127, 0, 0, 1]).await,
        Agent::start("b", [127, 0, 0, 2]).await,
    ];
    let [a, b] = &agents;
    let mut seen_from_a = enrolment(a, &agents);
    seen_from_a.peers[1].data_port = CLOSED;
    a.enrol(seen_from_a).await.unwrap();
    b.enrol(enrolment(b, &agents)).await.unwrap();
    agents
}

async fn call_back(agent: &Agent, peer: &str) -> Vec<String> {
    let request = CallBackRequest {
        run_id: RUN.into(),
        peers: vec![peer.into()],
    };
    let reply = agent.client.clone().call_back(request).await.unwrap();
    reply.into_inner().connected
}

#[tokio::test(flavor = "multi_thread")]
async fn work_goes_over_connections_that_the_peer_opens() {
    let [a, b] = two().await;
    assert_eq!(call_back(&b, "a").await, ["a"]);
    let sends = Part {
        probes: vec![(0, "b", bulk(0.1, 3))],
        ..Part::default()
    };
    let awaiting = Part {
        receives: vec![(0, "a")],
        ..Part::default()
    };
    let (sent, received) = tokio::join!(measure(&a, sends), measure(&b, awaiting));
    assert_eq!(received.unwrap(), []);
    let reply = sent.unwrap().remove(0);
    assert_eq!(reply.error, "");
    let Some(Outcome::Bulk(bulk)) = reply.result else {
        panic!("no bulk in {:?}", reply.result)
    };
    assert_eq!(bulk.flows.len(), 3);
    assert!(
        bulk.flows
            .iter()
            .all(|flow| flow.bytes > 0 && flow.congestion == "reno")
    );

    let transfers = (0..50).map(|id| transfer(id, "b", 10_000)).collect();
    let replaying = replay(&a, "phase-0", transfers).await.unwrap();
    assert_eq!(replaying.connected, 50);
    start(&a, "phase-0").await.unwrap();
    let done = replaying.done().await;
    assert!(
        done.iter().all(|done| done.error.is_empty() && done.bytes == 10_000),
        "{done:?}"
    );

    // A greeting shows whether the peer accepts connections.
    let request = GreetRequest {
        run_id: RUN.into(),
        peers: vec!["b".into()],
        limit_s: 1.0,
        tcp_only: true,
    };
    let greetings = a.client.clone().greet(request).await.unwrap().into_inner().greetings;
    assert_eq!(greetings[0].tcp(), Reception::Refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_end_with_their_run() {
    let [a, b] = two().await;
    let one = || vec![transfer(0, "b", 10)];
    let failed = replay(&a, "before", one()).await.unwrap();
    assert_eq!(failed.connected, 0);
    assert_eq!(call_back(&b, "a").await, ["a"]);
    assert_eq!(replay(&a, "during", one()).await.unwrap().connected, 1);
    let release = ReleaseRequest { run_id: RUN.into() };
    b.client.clone().release(release).await.unwrap();
    let mut count = 0;
    while replay(&a, &format!("after-{count}"), one()).await.unwrap().connected > 0 {
        // The line closes a moment later.
        count += 1;
        assert!(count < 100, "the line is still open");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_out_of_reach_gets_no_line() {
    let [a, b] = two().await;
    assert_eq!(call_back(&a, "b").await, Vec::<String>::new());
    let stranger = CallBackRequest {
        run_id: RUN.into(),
        peers: vec!["stranger".into()],
    };
    assert!(b.client.clone().call_back(stranger).await.is_err());
}
