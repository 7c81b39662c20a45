//! The data port's treatment of clients that do not belong to the run.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use gavotte_agent::contract::agents::{Bulk, BurstTrain, EnrolRequest, Probe, probe::Kind};
use gavotte_agent::contract::data::{Challenge, Hello, Sealed, hello::Work};
use gavotte_agent::error::HandshakeError;
use gavotte_agent::hold::secret::Secret;
use gavotte_agent::plane::frames;
use gavotte_agent::plane::handshake;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::support::{Agent, Part, RUN, SECRET, enrol, enrolment, measure, short_train, three, transfer};

const LIMIT: Duration = Duration::from_secs(30);

async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::from(from), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// All bytes that the other side sends before it closes the connection.
async fn last_words(stream: &mut TcpStream) -> Vec<u8> {
    let mut words = Vec::new();
    // A reset ends the connection as well.
    let _ = tokio::time::timeout(LIMIT, stream.read_to_end(&mut words))
        .await
        .expect("must hang up");
    words
}

fn hello(source: &str) -> Hello {
    let work = Some(Work::Transfer(transfer(0, "a", 10)));
    Hello {
        run_id: RUN.into(),
        source: source.into(),
        work,
        ..Hello::default()
    }
}

fn probe(kind: Kind) -> Work {
    Work::Probe(Probe {
        kind: Some(kind),
        ..Probe::default()
    })
}

fn secret() -> Secret {
    Secret::new(&SECRET).unwrap()
}

async fn greet(stream: &mut TcpStream, hello: Hello) -> Result<u64, HandshakeError> {
    handshake::connect(stream, &secret(), hello, [5; 16])
        .await?
        .welcome(stream)
        .await
}

async fn enrolled() -> [Agent; 3] {
    let agents = three().await;
    enrol(&agents).await;
    agents
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_not_enrolled_hears_nothing() {
    let agents = enrolled().await;
    let mut stream = connect([127, 0, 0, 9], agents[0].data()).await;
    assert!(last_words(&mut stream).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_anything_without_a_hold() {
    let agents = three().await;
    let mut stream = connect([127, 0, 0, 2], agents[0].data()).await;
    assert!(last_words(&mut stream).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_secret_opens_and_a_wrong_name_or_run_does_not() {
    let agents = enrolled().await;
    let to = agents[0].data();
    greet(&mut connect([127, 0, 0, 2], to).await, hello("b")).await.unwrap();
    for wrong in [hello("c"), hello("a"), hello("stranger")] {
        let result = greet(&mut connect([127, 0, 0, 2], to).await, wrong).await;
        assert!(matches!(result, Err(HandshakeError::Refused { .. })), "{result:?}");
    }
    let other_run = Hello {
        run_id: "run-9".into(),
        ..hello("b")
    };
    let unknown = greet(&mut connect([127, 0, 0, 2], to).await, other_run).await;
    assert!(matches!(unknown, Err(HandshakeError::HungUp)), "{unknown:?}");
    let idle = greet(
        &mut connect([127, 0, 0, 2], to).await,
        Hello {
            work: None,
            ..hello("b")
        },
    )
    .await;
    assert!(matches!(idle, Err(HandshakeError::Refused { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_mac_is_hung_up_on() {
    let agents = enrolled().await;
    let mut stream = connect([127, 0, 0, 2], agents[0].data()).await;
    let wrong = Secret::new(&[8; 32]).unwrap();
    handshake::connect(&mut stream, &wrong, hello("b"), [5; 16])
        .await
        .unwrap();
    assert!(last_words(&mut stream).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_hello_does_not_open_a_second_time() {
    let agents = enrolled().await;
    let to = agents[0].data();
    // Take the true agent's place once to record the messages of an enrolled peer ...
    let (mut near, mut far) = tokio::io::duplex(1 << 16);
    let mut first = connect([127, 0, 0, 2], to).await;
    let challenge: Challenge = frames::read(&mut first).await.unwrap();
    frames::write(&mut far, &challenge).await.unwrap();
    let mut channel = handshake::connect(&mut near, &secret(), hello("b"), [5; 16])
        .await
        .unwrap();
    let recorded: Sealed = frames::read(&mut far).await.unwrap();
    frames::write(&mut first, &recorded).await.unwrap();
    channel.welcome(&mut first).await.unwrap();
    // ... and send them again.
    let mut second = connect([127, 0, 0, 2], to).await;
    let _: Challenge = frames::read(&mut second).await.unwrap();
    frames::write(&mut second, &recorded).await.unwrap();
    assert!(last_words(&mut second).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_with_different_secrets_do_not_measure() {
    let agents = enrolled().await;
    let [a, b, _] = &agents;
    b.enrol(EnrolRequest {
        secret: vec![8; 32],
        ..enrolment(b, &agents)
    })
    .await
    .unwrap();
    let train = Kind::BurstTrain(BurstTrain {
        bursts: 1,
        packets: 10,
        payload_bytes: 100,
        gap_s: 0.0,
    });
    let (sent, _) = tokio::join!(
        measure(
            a,
            Part {
                probes: vec![(0, "b", train)],
                ..Part::default()
            }
        ),
        measure(
            b,
            Part {
                receives: vec![(0, "a")],
                wait_s: 0.3,
                ..Part::default()
            }
        ),
    );
    let reply = sent.unwrap().remove(0);
    assert!(!reply.error.is_empty());
    assert_eq!(reply.bytes_sent, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_never_kills_an_agent() {
    let agents = enrolled().await;
    let [a, b, _] = &agents;
    let udp = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    for seed in 0..60u64 {
        let noise: Vec<u8> = (0..seed * 7)
            .map(|index| blake3::hash(&(seed, index).0.to_be_bytes()).as_bytes()[(index % 32) as usize])
            .collect();
        let mut stream = connect([127, 0, 0, 2], a.data()).await;
        if seed % 3 == 0 {
            // A frame that never follows its length, or a length beyond any bound.
            let length = if seed % 2 == 0 { 1000u32 } else { u32::MAX };
            let _ = stream.write_all(&length.to_be_bytes()).await;
        }
        let _ = stream.write_all(&noise).await;
        let _ = stream.shutdown().await;
        last_words(&mut stream).await;
        udp.send_to(&noise, a.data()).await.unwrap();
    }
    // Authenticated, but invalid.
    let works = [
        probe(Kind::BurstTrain(BurstTrain {
            bursts: u32::MAX,
            packets: u32::MAX,
            payload_bytes: u32::MAX,
            gap_s: f64::NAN,
        })),
        probe(Kind::Bulk(Bulk {
            seconds: f64::INFINITY,
            bin_s: -1.0,
            ..Bulk::default()
        })),
        Work::Transfer(transfer(0, "a", u64::MAX)),
    ];
    let visits = async {
        for work in works {
            let mut stream = connect([127, 0, 0, 2], a.data()).await;
            let hello = Hello {
                work: Some(work),
                ..hello("b")
            };
            // Some of these wait for a round that never comes.
            let _ = tokio::time::timeout(Duration::from_millis(300), greet(&mut stream, hello)).await;
            let _ = stream.write_all(&[0; 100]).await;
        }
    };
    let (received, ()) = tokio::join!(
        measure(
            a,
            Part {
                receives: vec![(0, "b")],
                wait_s: 5.0,
                ..Part::default()
            }
        ),
        visits,
    );
    received.unwrap();
    assert!(a.is_well().await);
    // The agent still measures.
    assert_eq!(short_train((b, "b"), (a, "a")).await.error, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_keep_nobody_out() {
    let agents = enrolled().await;
    let to = agents[0].data();
    let mut idle = Vec::new();
    for _ in 0..1500 {
        idle.push(connect([127, 0, 0, 2], to).await);
    }
    // Neither another address nor a true peer at the same address has to wait until the idle connections are closed.
    for (address, name) in [([127, 0, 0, 3], "c"), ([127, 0, 0, 2], "b")] {
        let greeting = async { greet(&mut connect(address, to).await, hello(name)).await };
        let greeted = tokio::time::timeout(Duration::from_secs(3), greeting).await;
        greeted.expect("must not wait").unwrap();
    }
}
