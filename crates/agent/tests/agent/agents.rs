//! Agents that measure and replay over loopback, as a controller sees them. No result depends on speed.

use std::time::Duration;

use gavotte_agent::contract::agents::{
    Bulk, BurstTrain, Failure, ProbeReply, Transfer, probe::Kind, probe_reply::Result as Outcome,
};
use tonic::Code;

use crate::support::{Agent, Part, bulk, enrol, measure, pace, replay, replay_telling, start, three, train, transfer};

#[tokio::test(flavor = "multi_thread")]
async fn trains_run_in_both_directions_and_round_by_round() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, c] = &agents;
    let to = |probes: &[(u32, &'static str)]| probes.iter().map(|(round, peer)| (*round, *peer, train())).collect();
    let (from_a, from_b, from_c) = tokio::join!(
        measure(
            a,
            Part {
                probes: to(&[(0, "b"), (1, "c")]),
                receives: vec![(0, "b"), (3, "c")],
                wait_s: 0.0
            }
        ),
        measure(
            b,
            Part {
                probes: to(&[(0, "a"), (2, "c")]),
                receives: vec![(0, "a")],
                wait_s: 0.0
            }
        ),
        measure(
            c,
            Part {
                probes: to(&[(3, "a")]),
                receives: vec![(1, "a"), (2, "b")],
                wait_s: 0.0
            }
        ),
    );
    let replies = [from_a.unwrap(), from_b.unwrap(), from_c.unwrap()].concat();
    assert_eq!(replies.len(), 5);
    for reply in replies {
        assert_eq!(reply.error, "");
        let Some(Outcome::BurstTrain(train)) = reply.result else {
            panic!("no train in {reply:?}")
        };
        assert_eq!((train.sent, train.bursts.len(), reply.bytes_sent), (250, 5, 250_000));
        assert!(train.received > 0 && train.rate_bps > 0.0);
        assert_eq!(
            train.received,
            train.bursts.iter().map(|burst| burst.received).sum::<u32>()
        );
        assert!(reply.rtt_s > 0.0);
        assert_eq!(reply.hops, 1);
    }
    assert_eq!(a.release().await, 500_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_flows_are_counted_in_bins_at_the_receiver() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, _] = &agents;
    let (sent, received) = tokio::join!(
        measure(
            a,
            Part {
                probes: vec![(1, "b", bulk(0.1, 3))],
                ..Part::default()
            }
        ),
        measure(
            b,
            Part {
                receives: vec![(1, "a")],
                ..Part::default()
            }
        ),
    );
    assert_eq!(received.unwrap(), []);
    let reply = sent.unwrap().remove(0);
    assert_eq!(reply.error, "");
    let Some(Outcome::Bulk(bulk)) = reply.result else {
        panic!("no bulk in {:?}", reply.result)
    };
    assert_eq!(bulk.flows.len(), 3);
    for flow in &bulk.flows {
        assert_eq!(flow.bytes, flow.bin_bytes.iter().sum::<u64>());
        assert_eq!(flow.congestion, "reno");
        assert!(flow.bytes > 0 && flow.rtt_s > 0.0);
    }
    // Bytes that arrive after the receiver's time do not count.
    assert!(reply.bytes_sent >= bulk.flows.iter().map(|flow| flow.bytes).sum::<u64>());
    assert!(bulk.goodput_bps > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_probe_is_told_and_the_schedule_goes_on() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, _] = &agents;
    let unpinned = Kind::Bulk(Bulk {
        seconds: 0.1,
        flows: 1,
        congestion: "none-such".into(),
        bin_s: 0.0,
        copy: true,
        engine: 0,
        max_bytes: 0,
        settled: false,
        mtu_bytes: 0,
    });
    let senseless = Kind::BurstTrain(BurstTrain::default());
    let probes = vec![
        (0, "stranger", train()),
        (1, "b", senseless),
        (2, "b", unpinned),
        (3, "a", train()),
        (4, "b", train()),
    ];
    let (sent, _) = tokio::join!(
        measure(
            a,
            Part {
                probes,
                ..Part::default()
            }
        ),
        measure(
            b,
            Part {
                receives: vec![(1, "a"), (2, "a"), (4, "a")],
                ..Part::default()
            }
        ),
    );
    let replies = sent.unwrap();
    let failures: Vec<_> = replies.iter().map(ProbeReply::failure).collect();
    let [invalid, none] = [Failure::Invalid, Failure::Unspecified];
    assert_eq!(failures, [invalid, invalid, Failure::Congestion, invalid, none]);
    let errors: Vec<_> = replies.into_iter().map(|reply| reply.error).collect();
    assert_eq!(errors[0], "`stranger` is not an enrolled peer");
    assert!(errors[1].contains("bursts"), "{}", errors[1]);
    assert!(errors[2].contains("`none-such`"), "{}", errors[2]);
    assert_eq!(errors[3], "`a` is not an enrolled peer");
    assert_eq!(errors[4], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_never_comes_is_given_up() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, c] = &agents;
    // `c` has no schedule: `a` waits for its welcome in vain, and `b` waits for its train in vain.
    let (sent, received) = tokio::join!(
        measure(
            a,
            Part {
                probes: vec![(0, "c", train()), (1, "b", train())],
                wait_s: 0.3,
                ..Part::default()
            }
        ),
        measure(
            b,
            Part {
                receives: vec![(0, "c"), (1, "a")],
                wait_s: 0.6,
                ..Part::default()
            }
        ),
    );
    received.unwrap();
    let replies = sent.unwrap();
    assert!(replies[0].error.contains("ready"), "{}", replies[0].error);
    assert_eq!((replies[0].failure(), replies[0].bytes_sent), (Failure::Unreachable, 0));
    // `b` may or may not have given `a` up; either is correct.
    assert_eq!(replies.len(), 2);
    assert!(c.is_well().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_moves_every_byte_also_to_itself() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, b, _] = &agents;
    let transfers = vec![
        transfer(1, "b", 3_000_000),
        transfer(2, "c", 1),
        transfer(3, "a", 2_000_000),
        transfer(4, "b", 0),
        transfer(5, "stranger", 10),
    ];
    let from_a = replay(a, "phase-0", transfers).await.unwrap();
    let from_b = replay(b, "phase-0", (0..200).map(|id| transfer(id, "a", 10_000)).collect())
        .await
        .unwrap();
    assert_eq!((from_a.connected, from_b.connected), (4, 200));
    assert_eq!(
        replay(a, "phase-0", vec![]).await.err().unwrap().code(),
        Code::AlreadyExists
    );
    assert_eq!(start(a, "phase-1").await.unwrap_err().code(), Code::NotFound);
    start(a, "phase-0").await.unwrap();
    start(b, "phase-0").await.unwrap();
    let (done_a, done_b) = tokio::join!(from_a.done(), from_b.done());
    assert_eq!(
        done_a.iter().map(|done| done.bytes).collect::<Vec<_>>(),
        [3_000_000, 1, 2_000_000, 0, 0]
    );
    assert_eq!(
        done_a.iter().map(|done| done.error.as_str()).collect::<Vec<_>>()[..4],
        [""; 4]
    );
    assert_eq!(done_a[4].error, "`stranger` is not an enrolled peer");
    assert!(done_b.iter().all(|done| done.error.is_empty() && done.bytes == 10_000));
    assert!(done_b.iter().all(|done| done.finish_s >= done.start_s));
    assert_eq!((a.release().await, b.release().await), (5_000_001, 2_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_keeps_the_pace_that_its_controller_wants() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, _, _] = &agents;
    let paced = |id, pace_bps| Transfer {
        pace_bps,
        ..transfer(id, "b", 10_000_000)
    };
    // At its first pace the second transfer would take 80 s, longer than the replay may. A segment in flight keeps its
    // schedule: on loopback it has 128 kB, which takes a second here.
    let transfers = vec![paced(1, 40_000_000), paced(2, 1_000_000), paced(3, 1)];
    let replaying = replay_telling(a, "paced", transfers, 0.1).await.unwrap();
    assert_eq!(pace(a, "other", 2, 0).await.unwrap_err().code(), Code::NotFound);
    start(a, "paced").await.unwrap();
    pace(a, "paced", 2, 80_000_000).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    pace(a, "paced", 3, 0).await.unwrap();
    let (done, moved) = replaying.with_reports().await;
    assert!(done.iter().all(|done| done.error.is_empty()), "{done:?}");
    // The first window leaves before the pacing begins.
    assert!(done[0].finish_s - done[0].start_s > 1.5, "{done:?}");
    assert!(done[2].finish_s > 1.0, "the third was to wait: {done:?}");
    assert!(moved.len() > 2 && moved.iter().all(|report| report.ids.len() == report.bytes.len()));
    let last = |id| {
        moved
            .iter()
            .rev()
            .find_map(|report| report.ids.iter().position(|at| *at == id).map(|at| report.bytes[at]))
    };
    assert!(last(1) > Some(2_000_000) && last(1) <= Some(10_000_000), "{moved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spread_transfer_keeps_its_pace_and_its_budget() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, _, _] = &agents;
    let spread = |id, bytes, pace_bps| Transfer {
        pace_bps,
        spread: true,
        ..transfer(id, "b", bytes)
    };
    let transfers = vec![
        spread(1, 4_000_000, 40_000_000),
        spread(2, 3_000_001, 1),
        spread(3, 0, 9),
    ];
    let replaying = replay(a, "spread", transfers).await.unwrap();
    start(a, "spread").await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    pace(a, "spread", 2, 80_000_000).await.unwrap();
    let done = replaying.done().await;
    assert!(done.iter().all(|done| done.error.is_empty()), "{done:?}");
    assert_eq!(
        done.iter().map(|done| done.bytes).collect::<Vec<_>>(),
        [4_000_000, 3_000_001, 0]
    );
    assert!(done[0].finish_s - done[0].start_s > 0.75, "{done:?}");
    assert!(done[1].finish_s > 0.85, "the second was to wait: {done:?}");
    assert_eq!(a.release().await, 7_000_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_transfers_arrive_in_every_way() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, _, _] = &agents;
    let encrypted = |id, target, bytes| Transfer {
        encrypt: true,
        ..transfer(id, target, bytes)
    };
    let transfers = vec![
        encrypted(1, "b", 5_000_001),
        encrypted(2, "a", 70_000),
        Transfer {
            pace_bps: 40_000_000,
            ..encrypted(3, "c", 1_000_003)
        },
        Transfer {
            pace_bps: 100_000_000,
            spread: true,
            round_trip_s: 0.02,
            ..encrypted(4, "b", 3_000_001)
        },
        Transfer {
            bin_s: 0.01,
            ..encrypted(5, "c", 2_000_000)
        },
        encrypted(6, "b", 0),
    ];
    let bytes: Vec<u64> = transfers.iter().map(|transfer| transfer.bytes).collect();
    let replaying = replay(a, "encrypted", transfers).await.unwrap();
    start(a, "encrypted").await.unwrap();
    let done = replaying.done().await;
    assert!(done.iter().all(|done| done.error.is_empty()), "{done:?}");
    assert_eq!(done.iter().map(|done| done.bytes).collect::<Vec<_>>(), bytes);
    // Only whole and authentic records count.
    assert_eq!(done[4].bin_bytes.iter().sum::<u64>(), 2_000_000);
    assert_eq!(a.release().await, bytes.iter().sum::<u64>());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_transfers_at_once() {
    let agents = three().await;
    enrol(&agents).await;
    let [a, _, _] = &agents;
    let targets = ["b", "c", "a"];
    let transfers = (0..2000)
        .map(|id| transfer(id, targets[id as usize % 3], 5_000))
        .collect();
    let replaying = replay(a, "big", transfers).await.unwrap();
    assert_eq!(replaying.connected, 2000);
    start(a, "big").await.unwrap();
    let done = replaying.done().await;
    let errors: Vec<_> = done.iter().filter(|done| !done.error.is_empty()).collect();
    assert!(errors.is_empty(), "{:?}", errors[0]);
    assert_eq!(done.iter().map(|done| done.bytes).sum::<u64>(), 10_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_measure_over_ipv6() {
    let loopback = std::net::Ipv6Addr::LOCALHOST;
    if std::net::TcpListener::bind((loopback, 0)).is_err() {
        return;
    }
    let agents = [Agent::start("a", loopback).await, Agent::start("b", loopback).await];
    enrol(&agents).await;
    let [a, b] = &agents;
    let (sent, _) = tokio::join!(
        measure(
            a,
            Part {
                probes: vec![(0, "b", train())],
                ..Part::default()
            }
        ),
        measure(
            b,
            Part {
                receives: vec![(0, "a")],
                ..Part::default()
            }
        ),
    );
    let reply = sent.unwrap().remove(0);
    assert_eq!((reply.error.as_str(), reply.hops), ("", 1));
}
