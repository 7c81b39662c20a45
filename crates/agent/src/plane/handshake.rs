//! Authenticates two agents of a run to each other, and the frames that they exchange afterwards.
//!
//! 1. The acceptor sends a challenge with a nonce.
//! 2. The connector answers with an authenticated Hello that contains a nonce of its own.
//! 3. The acceptor answers with an authenticated Welcome.
//!
//! Every authenticated frame has a BLAKE3 MAC, keyed with the run's secret, over its direction, its number in that
//! direction, both nonces and its body. An agent therefore rejects frames that were made without the secret, copied
//! from another connection, sent back to their sender, or sent twice.
//!
//! Frames are not encrypted. Bulk bytes can be, in records whose keys come from the same secret and nonces (`records`).

use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::contract::NONCE_BYTES;
use crate::contract::agents::Failure;
use crate::contract::data::{Challenge, Hello, Sealed, Welcome};
use crate::error::{FrameError, HandshakeError};
use crate::hold::secret::Secret;
use crate::plane::frames;
use crate::plane::records::{Cipher, Ends, Opener, Sealer};

/// A random number used once.
pub type Nonce = [u8; NONCE_BYTES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Direction {
    FromConnector = 1,
    FromAcceptor = 2,
}

impl Direction {
    fn other(self) -> Self {
        match self {
            Self::FromConnector => Self::FromAcceptor,
            Self::FromAcceptor => Self::FromConnector,
        }
    }
}

/// One side of an authenticated connection: computes the MACs of sent frames and checks those of received frames.
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
    /// Encrypts the bulk bytes that this side sends, once for each connection.
    pub fn sealer(&self, ends: Ends<'_>) -> Sealer {
        Sealer(self.cipher(self.sends, ends))
    }

    /// Decrypts the bulk bytes that the other side sends, once for each connection.
    pub fn opener(&self, ends: Ends<'_>) -> Opener {
        Opener::new(self.cipher(self.sends.other(), ends))
    }

    fn cipher(&self, direction: Direction, ends: Ends<'_>) -> Cipher {
        Cipher::new(&self.secret, [&self.challenge, &self.hello], direction as u8, ends)
    }

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

    /// Sends an authenticated message.
    ///
    /// # Errors
    /// If the connection fails or the message is too long for a frame.
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

    /// Receives a message and checks that the other side of this connection sent it.
    ///
    /// # Errors
    /// If the frame is forged, is not an `M`, or the connection fails.
    pub async fn receive<M: Message + Default>(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<M, HandshakeError> {
        let sealed: Sealed = frames::read(stream).await?;
        self.verify(self.sends.other(), self.received, &sealed)?;
        self.received += 1;
        Ok(M::decode(sealed.body.as_slice()).map_err(FrameError::from)?)
    }

    /// Waits, as the connector, for the acceptor's Welcome. Returns the id that packets of a train must have.
    ///
    /// # Errors
    /// [`HandshakeError::Refused`] with the acceptor's reason, or the connection's error.
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

/// Runs the connector's half: waits for the challenge and sends `hello` with `nonce` in it.
///
/// # Errors
/// If the other side closes the connection or sends something else, or the connection fails.
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

/// Runs the acceptor's half: sends a challenge with `nonce` and with zeros after it, and waits for a Hello that answers
/// it. `secret` returns the secret of the run that the Hello names.
///
/// # Errors
/// [`HandshakeError::Forged`] if the run does not exist, or if the Hello was not made with the run's secret for this
/// challenge; otherwise the connection's error.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    secret: impl Fn(&str) -> Option<Secret>,
    nonce: Nonce,
    padding_bytes: usize,
) -> Result<(Channel, Hello), HandshakeError> {
    let challenge = Challenge {
        nonce: nonce.to_vec(),
        padding: vec![0; padding_bytes],
    };
    frames::write(stream, &challenge).await?;
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
