//! How two agents of a run recognise each other, and the sealed frames they speak from then on.
//!
//! The acceptor sends a nonce; the connector answers with a sealed Hello that holds a nonce of its own; the
//! acceptor answers with a sealed Welcome. Every sealed frame bears a BLAKE3 MAC, keyed with the run's secret, over
//! its direction, its number in that direction, both nonces and its body. So a frame that was made without the secret, taken
//! from another connection, sent back to its sender or sent twice is refused.

use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::contract::NONCE_BYTES;
use crate::contract::agents::Failure;
use crate::contract::data::{Challenge, Hello, Sealed, Welcome};
use crate::error::{FrameError, HandshakeError};
use crate::hold::secret::Secret;
use crate::plane::frames;

/// A random number used once.
pub type Nonce = [u8; NONCE_BYTES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Direction {
    FromConnector = 1,
    FromAcceptor = 2,
}

/// One side of an authenticated connection; seals what is sent and checks what is received.
#[derive(Debug)]
pub struct Channel {
    secret: Secret,
    challenge: Nonce,
    hello: Nonce,
    sends: Direction,
    sent: u32,
    received: u32,
}

impl Channel {
    fn mac(&self, direction: Direction, number: u32, body: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(self.secret.bytes());
        hasher.update(&[direction as u8]);
        hasher.update(&number.to_be_bytes());
        hasher.update(&self.challenge);
        hasher.update(&self.hello);
        hasher.update(body);
        hasher.finalize()
    }

    fn verify(&self, direction: Direction, number: u32, sealed: &Sealed) -> Result<(), HandshakeError> {
        let mac: [u8; 32] = sealed.mac.as_slice().try_into().map_err(|_| HandshakeError::Forged)?;
        // blake3::Hash compares in constant time.
        if self.mac(direction, number, &sealed.body) == mac {
            Ok(())
        } else {
            Err(HandshakeError::Forged)
        }
    }

    /// Sends a sealed message.
    ///
    /// # Errors
    /// When the connection fails or the message is too long for a frame.
    pub async fn send(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        message: &impl Message,
    ) -> Result<(), FrameError> {
        let body = message.encode_to_vec();
        let mac = self.mac(self.sends, self.sent, &body).as_bytes().to_vec();
        self.sent += 1;
        frames::write(stream, &Sealed { body, mac }).await
    }

    /// Receives a sealed message and checks that the other side of this connection made it.
    ///
    /// # Errors
    /// When the frame is forged, is not an `M`, or the connection fails.
    pub async fn receive<M: Message + Default>(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<M, HandshakeError> {
        let sealed: Sealed = frames::read(stream).await?;
        let direction = match self.sends {
            Direction::FromConnector => Direction::FromAcceptor,
            Direction::FromAcceptor => Direction::FromConnector,
        };
        self.verify(direction, self.received, &sealed)?;
        self.received += 1;
        Ok(M::decode(sealed.body.as_slice()).map_err(FrameError::from)?)
    }

    /// The connector's wait for the acceptor's Welcome. Returns the probe id that train packets must bear.
    ///
    /// # Errors
    /// [`HandshakeError::Refused`] with the acceptor's reason, or what the connection failed with.
    pub async fn welcome(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> Result<u64, HandshakeError> {
        let welcome: Welcome = self.receive(stream).await.map_err(|error| match error {
            HandshakeError::Frame(FrameError::Closed) => HandshakeError::HungUp,
            other => other,
        })?;
        if welcome.refusal.is_empty() {
            return Ok(welcome.probe_id);
        }
        let failure = match welcome.failure() {
            Failure::Unspecified => Failure::Refused,
            failure => failure,
        };
        Err(HandshakeError::Refused {
            reason: welcome.refusal,
            failure,
        })
    }
}

/// The connector's half: waits for the challenge and sends `hello` with `nonce` in it.
///
/// # Errors
/// When the other side hangs up, sends something else, or the connection fails.
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    secret: &Secret,
    hello: Hello,
    nonce: Nonce,
) -> Result<Channel, HandshakeError> {
    let challenge: Challenge = frames::read(stream).await.map_err(|error| match error {
        FrameError::Closed => HandshakeError::HungUp,
        other => other.into(),
    })?;
    let mut channel = Channel {
        secret: secret.clone(),
        challenge: self::nonce(&challenge.nonce)?,
        hello: nonce,
        sends: Direction::FromConnector,
        sent: 0,
        received: 0,
    };
    channel
        .send(
            stream,
            &Hello {
                nonce: nonce.to_vec(),
                ..hello
            },
        )
        .await?;
    Ok(channel)
}

/// The acceptor's half: sends `nonce` as the challenge and waits for a Hello that answers it. `secret` finds the secret
/// of the run that the Hello names.
///
/// # Errors
/// [`HandshakeError::Forged`] when there is no such run, or the Hello was not made with its secret for this challenge; or what the connection failed with.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    secret: impl Fn(&str) -> Option<Secret>,
    nonce: Nonce,
) -> Result<(Channel, Hello), HandshakeError> {
    frames::write(stream, &Challenge { nonce: nonce.to_vec() }).await?;
    let sealed: Sealed = frames::read(stream).await?;
    let hello = Hello::decode(sealed.body.as_slice()).map_err(FrameError::from)?;
    let channel = Channel {
        secret: secret(&hello.run_id).ok_or(HandshakeError::Forged)?,
        challenge: nonce,
        hello: self::nonce(&hello.nonce)?,
        sends: Direction::FromAcceptor,
        sent: 0,
        received: 1,
    };
    channel.verify(Direction::FromConnector, 0, &sealed)?;
    Ok((channel, hello))
}

fn nonce(bytes: &[u8]) -> Result<Nonce, HandshakeError> {
    bytes.try_into().map_err(|_| HandshakeError::Nonce(bytes.len()))
}
