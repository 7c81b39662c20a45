//! Reports about a peer that has vanished. No result depends on speed.

use gavotte_agent::contract::agents::{DropRequest, Failure, LookRequest, Transfer};
use tonic::{Code, Status};

use crate::support::{Agent, Part, RUN, enrol, measure, replay, start, three, train, transfer};

async fn look(agent: &Agent, peers: &[&str]) -> Result<Vec<String>, Status> {
    let request = LookRequest {
        run_id: RUN.into(),
        peers: peers.iter().map(|peer| (*peer).to_owned()).collect(),
    };
    let mut taken = agent.client.clone().look(request).await?.into_inner().taken;
    taken.sort();
    Ok(taken)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_tells_who_takes_connections() {
    let [a, b, c] = three().await;
    let agents = [a, b, c];
    enrol(&agents).await;
    let [a, b, c] = agents;
    assert_eq!(look(&b, &["a", "c"]).await.unwrap(), ["a", "c"]);
    assert_eq!(look(&b, &["z"]).await.unwrap_err().code(), Code::InvalidArgument);
    a.stop().await;
    assert_eq!(look(&b, &["a", "c"]).await.unwrap(), ["c"]);
    drop(c);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_does_not_wait_for_a_source_that_has_gone() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, c] = agents;
    a.stop().await;
    let (from_b, from_c) = tokio::join!(
        measure(
            &b,
            Part {
                probes: vec![(1, "c", train())],
                receives: vec![(0, "a")],
                // Far longer than the test may take.
                wait_s: 600.0,
            }
        ),
        measure(
            &c,
            Part {
                receives: vec![(1, "b")],
                wait_s: 600.0,
                ..Part::default()
            }
        ),
    );
    let replies = from_b.unwrap();
    assert_eq!(from_c.unwrap(), []);
    let reported: Vec<_> = replies
        .iter()
        .map(|reply| (reply.round, reply.peer.as_str(), reply.awaited, reply.failure()))
        .collect();
    assert_eq!(
        reported,
        [(0, "a", true, Failure::Vanished), (1, "c", false, Failure::Unspecified)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_counts_a_transfer_in_bins() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, _, _] = &agents;
    let binned = Transfer {
        bin_s: 0.001,
        ..transfer(0, "b", 5_000_000)
    };
    let replaying = replay(a, "bins", vec![binned, transfer(1, "c", 1_000)]).await.unwrap();
    start(a, "bins").await.unwrap();
    let done = replaying.done().await;
    assert_eq!(done[0].bin_bytes.iter().sum::<u64>(), 5_000_000);
    assert!(done[1].bin_bytes.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_ends_when_its_receiver_is_dropped() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, _, _] = &agents;
    let held = Transfer {
        // The transfer is held as if its receiver read nothing; the receiver still accepts connections.
        pace_bps: 1,
        ..transfer(0, "b", 5_000_000)
    };
    let replaying = replay(a, "phase", vec![held, transfer(1, "c", 1_000)]).await.unwrap();
    start(a, "phase").await.unwrap();
    let request = DropRequest {
        run_id: RUN.into(),
        peer: "b".into(),
        reason: "it does not answer".into(),
    };
    a.client.clone().drop(request).await.unwrap();
    let done = replaying.done().await;
    assert_eq!(
        (done[0].failure(), done[0].error.as_str()),
        (Failure::Dropped, "`b` was dropped: it does not answer")
    );
    assert_eq!((done[1].bytes, done[1].error.as_str()), (1_000, ""));
}
