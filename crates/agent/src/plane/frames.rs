//! Frames of a data connection: a 4-byte big-endian length, then one protobuf message.

use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::contract::MAX_FRAME_BYTES;
use crate::error::FrameError;

/// Writes one message as a frame.
///
/// # Errors
/// If the message is too long or the connection fails.
pub async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &impl Message) -> Result<(), FrameError> {
    let length = message.encoded_len();
    if length > MAX_FRAME_BYTES {
        return Err(FrameError::TooLong(length));
    }
    // One write for the whole frame: with TCP_NODELAY, two writes would be two packets.
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.extend(message.encode_to_vec());
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    Ok(())
}

/// Reads exactly one frame and no byte beyond it.
///
/// # Errors
/// If the frame is too long, is not an `M`, or the connection fails.
pub async fn read<M: Message + Default>(stream: &mut (impl AsyncRead + Unpin)) -> Result<M, FrameError> {
    let length = stream.read_u32().await? as usize;
    if length > MAX_FRAME_BYTES {
        return Err(FrameError::TooLong(length));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(M::decode(bytes.as_slice())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::data::{Challenge, Report, Sealed};
    use proptest::prelude::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(work)
    }

    #[test]
    fn a_frame_too_long_is_refused_on_both_sides() {
        run(async {
            let mut bytes = Vec::new();
            let report = Report {
                error: "x".repeat(MAX_FRAME_BYTES),
                ..Report::default()
            };
            assert!(matches!(write(&mut bytes, &report).await, Err(FrameError::TooLong(_))));
            let announced = [0xff; 4];
            let result = read::<Report>(&mut announced.as_slice()).await;
            assert!(matches!(result, Err(FrameError::TooLong(_))));
        });
    }

    #[test]
    fn a_cut_frame_is_a_closed_connection() {
        run(async {
            let mut bytes = Vec::new();
            write(
                &mut bytes,
                &Challenge {
                    nonce: vec![1; 16],
                    ..Challenge::default()
                },
            )
            .await
            .unwrap();
            for cut in 0..bytes.len() {
                let result = read::<Challenge>(&mut &bytes[..cut]).await;
                assert!(matches!(result, Err(FrameError::Closed)));
            }
        });
    }

    proptest! {
        #[test]
        fn frames_follow_each_other(nonces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5)) {
            run(async {
                let mut bytes = Vec::new();
                for nonce in &nonces {
                    write(&mut bytes, &Challenge { nonce: nonce.clone(), ..Challenge::default() }).await.unwrap();
                }
                let mut rest = bytes.as_slice();
                for nonce in &nonces {
                    assert_eq!(&read::<Challenge>(&mut rest).await.unwrap().nonce, nonce);
                }
                assert!(rest.is_empty());
            });
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            run(async {
                let _ = read::<Sealed>(&mut bytes.as_slice()).await;
                let _ = Report::decode(bytes.as_slice());
            });
        }
    }
}
