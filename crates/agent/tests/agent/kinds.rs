//! The gated train, the ping-pong and the traceroute between agents on loopback. No result depends on speed.

use gavotte_agent::contract::agents::{
    Bulk, Datagrams, Echo, GatedTrain, PingPong, ProbeReply, Traceroute, Verdict, probe::Kind,
    probe_reply::Result as Outcome,
};
use gavotte_probe::gated::parse_trace;

use crate::support::{Agent, Part, bulk, enrol, measure, three};

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
async fn datagrams_are_counted_with_their_delays() {
    let agents = three().await;
    enrol(&agents).await;
    let asked = Datagrams {
        seconds: 0.2,
        rate_bps: 2e6,
        payload_bytes: 500,
        bin_s: 0.01,
    };
    let reply = once(&agents, Kind::Datagrams(asked)).await;
    let Some(Outcome::Datagrams(result)) = reply.result else {
        panic!("{:?}", reply.error);
    };
    assert_eq!(result.sent, 100);
    assert_eq!(
        (result.received, result.late, result.repeated, result.payload_bytes),
        (100, 0, 0, 500)
    );
    assert_eq!(result.bin_bytes.iter().sum::<u64>(), 50_000);
    assert_eq!((reply.bytes_sent, reply.hops), (50_000, 1));
    // Both agents have the same clock.
    assert!(result.clock_ahead_s.abs() <= result.clock_error_s + 1e-3, "{result:?}");
    assert!(0.0 < result.least_delay_s && result.least_delay_s <= result.median_delay_s);
    assert!(result.median_delay_s <= result.high_delay_s && result.high_delay_s <= result.most_delay_s);
    assert!(result.jitter_s >= 0.0 && result.jitter_s < result.most_delay_s);
    assert_eq!(agents[0].release().await, 50_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_keep_to_the_packets_that_were_asked_for() {
    let agents = three().await;
    enrol(&agents).await;
    let asked = |mtu_bytes| {
        let Kind::Bulk(plain) = bulk(0.05, 2) else {
            unreachable!()
        };
        Kind::Bulk(Bulk { mtu_bytes, ..plain })
    };
    let reply = once(&agents, asked(1400)).await;
    let Some(Outcome::Bulk(result)) = reply.result else {
        panic!("{:?}", reply.error);
    };
    for flow in result.flows {
        // Time stamps take twelve bytes of each segment.
        assert!((1340..=1360).contains(&flow.segment_bytes), "{}", flow.segment_bytes);
    }
    enrol(&agents).await;
    assert!(once(&agents, asked(100)).await.error.contains("bulk.mtu_bytes"));
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
