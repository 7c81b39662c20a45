//! Sends messages that are longer than a frame, in parts.

use crate::contract::data::Part;
use crate::error::WorkError;
use crate::plane::dial::Connection;

/// Bytes of a part: a frame's, without what the messages around them add.
const PART_BYTES: usize = 60 << 10;

/// Sends `bytes`.
///
/// # Errors
/// If the connection fails.
pub async fn send(connection: &mut Connection, bytes: &[u8]) -> Result<(), WorkError> {
    let mut rest = bytes;
    loop {
        let (part, after) = rest.split_at(rest.len().min(PART_BYTES));
        let last = after.is_empty();
        let part = Part {
            bytes: part.to_vec(),
            last,
        };
        connection.send(&part).await?;
        if last {
            return Ok(());
        }
        rest = after;
    }
}

/// Receives at most `most` bytes, however long that takes.
///
/// # Errors
/// If there are more, or the connection fails.
pub async fn receive(connection: &mut Connection, most: usize) -> Result<Vec<u8>, WorkError> {
    let mut bytes = Vec::new();
    loop {
        let part: Part = connection.channel.receive(&mut connection.stream).await?;
        bytes.extend(part.bytes);
        if bytes.len() > most {
            return Err(WorkError::Request(format!("a message of more than {most} bytes")));
        }
        if part.last {
            return Ok(bytes);
        }
    }
}
