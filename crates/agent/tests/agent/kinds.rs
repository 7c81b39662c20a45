//! The gated train, the ping-pong and the traceroute between agents on loopback. No result depends on speed.

use gavotte_agent::contract::agents::{
    Echo, GatedTrain, PingPong, ProbeReply, Traceroute, Verdict, probe::Kind, probe_reply::Result as Outcome,
};
use gavotte_probe::gated::parse_trace;

use crate::support::{Agent, Part, enrol, measure, three};

/// Sends one probe from the first agent to the second, which expects it.
async fn once(agents: &[Agent], kind: Kind) -> ProbeReply {
    let probing = Part {
        probes: vec![(0, "b", kind)],
        receives: vec![],
        wait_s: 10.0,
    };
    let expecting = Part {
        probes: vec![],
        receives: vec![(0, "a")],
        wait_s: 10.0,
    };
    let (sent, received) = tokio::join!(measure(&agents[0], probing), measure(&agents[1], expecting));
    assert!(received.unwrap().is_empty());
    let mut replies = sent.unwrap();
    assert_eq!(replies.len(), 1);
    replies.swap_remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gated_train_stays_within_its_bytes_and_keeps_its_trace() {
    let agents = three().await;
    enrol(&agents).await;
    let asked = GatedTrain {
        max_bytes: 3_000_000,
        keep_trace: true,
        ..GatedTrain::default()
    };
    let reply = once(&agents, Kind::GatedTrain(asked)).await;
    let Some(Outcome::GatedTrain(result)) = reply.result else {
        panic!("{:?}", reply.error);
    };
    assert!(reply.bytes_sent > 0 && reply.bytes_sent <= 3_000_000);
    // Loopback carries larger packets, but a train's packets are no larger than any network's.
    assert_eq!((reply.mtu_bytes, reply.mtu_confirmed), (9216, true));
    assert_eq!((result.payload_bytes, result.wire_bytes), (9188, 9230));
    assert_eq!(u64::from(result.payload_bytes) * result.sent, reply.bytes_sent);
    // Loopback has no shaper, so no result is a proven capacity of a path.
    assert_eq!(reply.error.is_empty(), result.verdict() != Verdict::Unspecified);
    assert_eq!(result.refusal.is_empty(), reply.error.is_empty());
    let train = parse_trace(std::str::from_utf8(&result.trace).unwrap()).unwrap();
    assert_eq!(train.arrivals.len() as u64, result.received);
    assert_eq!((reply.hops, result.bin_bytes.len()), (1, 0));
    assert_eq!(agents[0].release().await, reply.bytes_sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_train_waits_for_its_time_and_is_binned() {
    let agents = three().await;
    enrol(&agents).await;
    let asked = GatedTrain {
        max_bytes: 1_000_000_000,
        pause_s: 0.3,
        hold_s: 0.05,
        max_seconds: 0.1,
        ..GatedTrain::default()
    };
    let reply = once(&agents, Kind::GatedTrain(asked)).await;
    let Some(Outcome::GatedTrain(result)) = reply.result else {
        panic!("{:?}", reply.error);
    };
    assert!((result.bin_s - 0.01).abs() < 1e-12 && result.first_unix_ns > 0);
    let bytes: u64 = result.bin_bytes.iter().sum();
    assert_eq!(bytes, result.received * u64::from(result.wire_bytes));
    assert!(reply.seconds >= 0.3, "{} s", reply.seconds);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_of_a_ping_pong_is_timed() {
    let agents = three().await;
    enrol(&agents).await;
    let asked = PingPong {
        bytes: vec![1, 100_000],
        repetitions: 5,
        congestion: "reno".into(),
    };
    let reply = once(&agents, Kind::PingPong(asked)).await;
    let Some(Outcome::PingPong(result)) = reply.result else {
        panic!("{:?}", reply.error);
    };
    let shape: Vec<_> = result
        .sizes
        .iter()
        .map(|size| (size.bytes, size.seconds.len()))
        .collect();
    assert_eq!(
        (shape, result.congestion.as_str()),
        (vec![(1, 5), (100_000, 5)], "reno")
    );
    assert!(result.sizes.iter().flat_map(|size| &size.seconds).all(|s| *s > 0.0));
    assert_eq!(reply.bytes_sent, 6 * 100_001);
    // One byte for each message.
    assert_eq!(agents[1].release().await, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_come_back_as_an_echo() {
    let agents = three().await;
    enrol(&agents).await;
    let reply = once(&agents, Kind::Echo(Echo { bytes: 100_000 })).await;
    let Some(Outcome::Echo(result)) = reply.result else {
        panic!("{:?}", reply.error);
    };
    assert!(result.seconds > 0.0);
    assert_eq!(reply.bytes_sent, 100_000);
    assert_eq!(agents[1].release().await, 100_000);
    enrol(&agents).await;
    assert!(
        once(&agents, Kind::Echo(Echo::default()))
            .await
            .error
            .contains("echo.bytes")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_on_the_same_link_is_one_hop_away() {
    let agents = three().await;
    enrol(&agents).await;
    let reply = once(&agents, Kind::Traceroute(Traceroute::default())).await;
    let Some(Outcome::Traceroute(result)) = reply.result else {
        panic!("{:?}", reply.error);
    };
    assert!(result.reached && reply.error.is_empty());
    let addresses: Vec<_> = result.hops.iter().map(|hop| hop.address.as_str()).collect();
    assert_eq!((addresses, reply.hops), (vec!["127.0.0.2"], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn senseless_probes_are_told_and_the_peer_is_excused() {
    let agents = three().await;
    enrol(&agents).await;
    let train = GatedTrain {
        payload_bytes: 10,
        ..GatedTrain::default()
    };
    let route = Traceroute {
        max_hops: 1000,
        ..Traceroute::default()
    };
    for (kind, field) in [
        (Kind::GatedTrain(train), "payload_bytes"),
        (Kind::PingPong(PingPong::default()), "ping_pong.bytes"),
        (Kind::Traceroute(route), "max_hops"),
    ] {
        let reply = once(&agents, kind).await;
        assert!(reply.error.contains(field), "{}", reply.error);
    }
}
