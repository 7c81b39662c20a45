//! Both ends of the handshake on an in-memory connection.

use gavotte_agent::contract::data::{Challenge, Hello, Report, Sealed, Welcome};
use gavotte_agent::error::HandshakeError;
use gavotte_agent::hold::secret::Secret;
use gavotte_agent::plane::frames;
use gavotte_agent::plane::handshake::{accept, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32]).unwrap()
}

fn hello() -> Hello {
    Hello {
        run_id: "run".into(),
        source: "a".into(),
        ..Hello::default()
    }
}

#[tokio::test]
async fn both_ends_come_to_terms() {
    let (mut near, mut far) = duplex(1 << 16);
    let accepting = tokio::spawn(async move {
        let (mut channel, hello) = accept(&mut far, |_| Some(secret(1)), [7; 16], 0).await.unwrap();
        assert_eq!(
            (hello.source.as_str(), hello.nonce.as_slice()),
            ("a", [9; 16].as_slice())
        );
        channel
            .send(
                &mut far,
                &Welcome {
                    probe_id: 42,
                    ..Welcome::default()
                },
            )
            .await
            .unwrap();
        channel.receive::<Report>(&mut far).await.unwrap().bytes
    });
    let mut channel = connect(&mut near, &secret(1), hello(), [9; 16]).await.unwrap();
    assert_eq!(channel.welcome(&mut near).await.unwrap(), 42);
    channel
        .send(
            &mut near,
            &Report {
                bytes: 5,
                ..Report::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(accepting.await.unwrap(), 5);
}

#[tokio::test]
async fn a_refusal_brings_its_reason() {
    let (mut near, mut far) = duplex(1 << 16);
    tokio::spawn(async move {
        let (mut channel, _) = accept(&mut far, |_| Some(secret(1)), [7; 16], 0).await.unwrap();
        channel
            .send(
                &mut far,
                &Welcome {
                    refusal: "no".into(),
                    ..Welcome::default()
                },
            )
            .await
            .unwrap();
    });
    let mut channel = connect(&mut near, &secret(1), hello(), [9; 16]).await.unwrap();
    let error = channel.welcome(&mut near).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Refused { reason, .. } if reason == "no"));
}

#[tokio::test]
async fn a_wrong_secret_is_forged() {
    let (mut near, mut far) = duplex(1 << 16);
    let accepting = tokio::spawn(async move { accept(&mut far, |_| Some(secret(1)), [7; 16], 0).await });
    connect(&mut near, &secret(2), hello(), [9; 16]).await.unwrap();
    assert!(matches!(accepting.await.unwrap(), Err(HandshakeError::Forged)));
}

#[tokio::test]
async fn a_replayed_hello_is_forged() {
    let (mut near, mut far) = duplex(1 << 16);
    let accepting = tokio::spawn(async move { accept(&mut far, |_| Some(secret(1)), [7; 16], 0).await.map(|_| ()) });
    let (mut tap, mut source) = duplex(1 << 16);
    frames::write(
        &mut source,
        &Challenge {
            nonce: vec![6; 16],
            ..Challenge::default()
        },
    )
    .await
    .unwrap();
    connect(&mut tap, &secret(1), hello(), [9; 16]).await.unwrap();
    drop(tap);
    let mut recorded = Vec::new();
    source.read_to_end(&mut recorded).await.unwrap();
    near.write_all(&recorded).await.unwrap();
    assert!(matches!(accepting.await.unwrap(), Err(HandshakeError::Forged)));
}

#[tokio::test]
async fn a_frame_sent_twice_is_forged() {
    let (mut near, mut far) = duplex(1 << 16);
    let accepting = tokio::spawn(async move {
        let (mut channel, _) = accept(&mut far, |_| Some(secret(1)), [7; 16], 0).await.unwrap();
        let first = channel.receive::<Report>(&mut far).await.map(|report| report.bytes);
        (first, channel.receive::<Report>(&mut far).await)
    });
    let mut channel = connect(&mut near, &secret(1), hello(), [9; 16]).await.unwrap();
    let mut frame = Vec::new();
    channel
        .send(
            &mut frame,
            &Report {
                bytes: 5,
                ..Report::default()
            },
        )
        .await
        .unwrap();
    near.write_all(&frame).await.unwrap();
    near.write_all(&frame).await.unwrap();
    let (first, second) = accepting.await.unwrap();
    assert_eq!(first.unwrap(), 5);
    assert!(matches!(second, Err(HandshakeError::Forged)));
}

#[tokio::test]
async fn a_frame_sent_back_to_its_sender_is_forged() {
    let (mut near, mut far) = duplex(1 << 16);
    frames::write(
        &mut far,
        &Challenge {
            nonce: vec![7; 16],
            ..Challenge::default()
        },
    )
    .await
    .unwrap();
    let mut channel = connect(&mut near, &secret(1), hello(), [9; 16]).await.unwrap();
    let own: Sealed = frames::read(&mut far).await.unwrap();
    frames::write(&mut far, &own).await.unwrap();
    assert!(matches!(channel.welcome(&mut near).await, Err(HandshakeError::Forged)));
}

#[tokio::test]
async fn hanging_up_says_what_it_means() {
    let (mut near, far) = duplex(64);
    drop(far);
    let error = connect(&mut near, &secret(1), hello(), [9; 16]).await.unwrap_err();
    assert!(matches!(error, HandshakeError::HungUp));
}

#[test]
fn a_secret_has_32_bytes_and_is_not_printed() {
    assert!(Secret::new(&[1; 31]).is_none());
    assert_eq!(format!("{:?}", secret(3)), "Secret(..)");
}
