//! Trains over loopback, and the estimator on recorded trains.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use gavotte_probe::choreo;
use gavotte_probe::packet::{HEADER_BYTES, Packet, PacketKey};
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::path::{INITIAL_TTL, Path};
use gavotte_probe::sockets::receiver::TrainReceiver;
use gavotte_probe::sockets::sender::TrainSender;
use gavotte_probe::train::{Arrivals, Shape};

fn pair(local: &str, shape: Shape) -> (TrainReceiver, TrainSender) {
    let local: IpAddr = local.parse().unwrap();
    let receiver = TrainReceiver::bind((local, 0).into()).unwrap();
    let peer = receiver.local_addr().unwrap();
    let key = PacketKey::derive(&[1; 32]);
    let sender = TrainSender::new(Path::open(Some(local), peer).unwrap(), key, 7, shape);
    (receiver, sender)
}

#[test]
fn a_burst_arrives_stamped_and_counted() {
    let shape = Shape::new(1, 100, 1472, 0.0).unwrap();
    let (mut receiver, mut sender) = pair("127.0.0.1", shape);
    sender.prepare(0);
    let (sent, result) = sender.send(|| true);
    result.unwrap();
    assert_eq!(sent, 100);
    let key = PacketKey::derive(&[1; 32]);
    let until = Instant::now() + Duration::from_secs(10);
    let mut stamps = Vec::new();
    while stamps.len() < 100 && Instant::now() < until {
        receiver
            .receive(until, |datagram| {
                let packet = Packet::read(&key, datagram.kept).unwrap();
                assert_eq!((packet.probe_id, packet.seq as usize), (7, stamps.len()));
                assert_eq!((datagram.length, datagram.ttl), (1472, Some(INITIAL_TTL)));
                assert_eq!(datagram.source, IpAddr::from([127, 0, 0, 1]));
                stamps.push(datagram.stamp_ns.unwrap());
            })
            .unwrap();
    }
    assert_eq!(stamps.len(), 100);
    assert_eq!(receiver.overflow(), 0);
}

#[test]
fn ipv6_brings_its_hop_limit() {
    let shape = Shape::new(1, 2, HEADER_BYTES as u32, 0.0).unwrap();
    if TrainReceiver::bind("[::1]:0".parse().unwrap()).is_err() {
        return;
    }
    let (mut receiver, mut sender) = pair("::1", shape);
    sender.prepare(0);
    sender.send(|| true).1.unwrap();
    let mut ttl = None;
    receiver
        .receive(Instant::now() + Duration::from_secs(5), |datagram| ttl = datagram.ttl)
        .unwrap();
    assert_eq!(ttl, Some(INITIAL_TTL));
}

#[test]
fn ipv4_brings_its_time_to_live_to_a_socket_for_both_families() {
    let Ok(mut receiver) = TrainReceiver::bind("[::]:0".parse().unwrap()) else {
        return;
    };
    let port = receiver.local_addr().unwrap().port();
    let shape = Shape::new(1, 2, 100, 0.0).unwrap();
    let peer = (IpAddr::from([127, 0, 0, 1]), port).into();
    let path = Path::open(None, peer).unwrap();
    let mut sender = TrainSender::new(path, PacketKey::derive(&[1; 32]), 7, shape);
    sender.prepare(0);
    sender.send(|| true).1.unwrap();
    let mut seen = None;
    receiver
        .receive(Instant::now() + Duration::from_secs(5), |datagram| {
            seen = Some((datagram.source, datagram.ttl, datagram.stamp_ns.is_some()));
        })
        .unwrap();
    assert_eq!(seen, Some((IpAddr::from([127, 0, 0, 1]), Some(INITIAL_TTL), true)));
}

#[test]
fn a_payload_beyond_the_mtu_is_refused_not_fragmented() {
    let shape = Shape::new(1, 2, 65_507, 0.0).unwrap();
    let (_receiver, mut sender) = pair("127.0.0.1", shape);
    sender.prepare(0);
    let (sent, result) = sender.send(|| true);
    // Loopback carries exactly 65,507 bytes of payload unless its MTU was lowered.
    match result {
        Ok(()) => assert_eq!(sent, 2),
        Err(error) => assert!(matches!(error, SocketError::TooLong { .. })),
    }
}

/// A recorded train of 10 bursts of 200 packets of 1472 bytes, 1 ms apart. It was recorded with kernel timestamps
/// behind a token bucket shaper (tbf, queue of 50 ms) between network namespaces on Linux 6.18.
fn recorded(csv: &str) -> (Arrivals, f64) {
    let mut arrivals = Arrivals::new(Shape::new(10, 200, 1472, 0.001).unwrap());
    for line in csv.lines().skip(1) {
        let fields: Vec<u64> = line.split(',').map(|field| field.parse().unwrap()).collect();
        assert!(arrivals.record(fields[0] as u32, fields[1] as u32, fields[2]));
    }
    let rate = choreo::rate_bps(&arrivals.bursts(), 200, 1472).unwrap();
    (arrivals, rate)
}

/// Share of a tbf rate that is UDP payload: the shaper counts 1514 bytes per packet.
const PAYLOAD: f64 = 1472.0 / 1514.0;

#[test]
fn a_shallow_bucket_is_read_within_three_percent_despite_heavy_loss() {
    let (arrivals, rate) = recorded(include_str!("data/tbf_100mbit_32kb.csv"));
    assert!(arrivals.received() < 700, "most of this train was dropped");
    let error = rate / (100e6 * PAYLOAD) - 1.0;
    assert!(error.abs() < 0.03, "{error}");
}

#[test]
fn a_shallow_bucket_is_read_within_three_percent_without_loss() {
    let (arrivals, rate) = recorded(include_str!("data/tbf_300mbit_32kb.csv"));
    assert!(arrivals.is_complete());
    let error = rate / (300e6 * PAYLOAD) - 1.0;
    assert!(error.abs() < 0.03, "{error}");
}

#[test]
fn a_deep_bucket_is_read_high() {
    // A known weakness of the method: the bucket's bytes pass at line rate, and count as if the path were that fast.
    let (_, rate) = recorded(include_str!("data/tbf_300mbit_512kb.csv"));
    let error = rate / (300e6 * PAYLOAD) - 1.0;
    assert!((0.05..1.0).contains(&error), "{error}");
}
