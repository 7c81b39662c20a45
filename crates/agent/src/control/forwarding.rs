//! Forwards calls of the controller to other agents of the run, and their answers to the controller.
//!
//! Each letter goes over a data connection of its own, which stays open until its last answer. If the controller closes its
//! stream, the agents at the other ends stop. If this agent disappears, they go on (see `hold::letterbox`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Status;

use crate::contract::agents::{Delivery, Failure, ForwardReply, ForwardRequest, Letter};
use crate::contract::data::{Lettered, Part, hello::Work};
use crate::error::{FrameError, HandshakeError, WorkError};
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::dial::Call;
use crate::plane::parts;

/// Largest number of letters of one call.
pub(super) const MAX_LETTERS: usize = 1024;
/// Longest sealed answer in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Limit for a connection, and for the peer to take it. An agent may have no processor for a while.
const LIMIT: Duration = Duration::from_secs(10);
/// Largest number of deliveries of one reply.
const MOST_DELIVERIES: usize = 256;
/// Longest time that the first delivery of a reply waits for more.
const MOST_GATHER_S: f64 = 1.0;
/// Limit for telling all peers that more answers are unwanted.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);

/// Forwards the letters of a call, and sends what comes of them.
pub(super) async fn run(
    plane: Arc<Plane>,
    hold: Arc<Hold>,
    request: ForwardRequest,
    replies: Sender<Result<ForwardReply, Status>>,
) {
    let (came, mut coming) = channel(MOST_DELIVERIES);
    let common: Arc<[u8]> = request.common.into();
    let gather = Duration::try_from_secs_f64(request.gather_s.min(MOST_GATHER_S)).unwrap_or_default();
    let leaving = watch::Sender::new(false);
    let mut letters = JoinSet::new();
    for (number, letter) in request.letters.into_iter().enumerate() {
        let (plane, hold, common, came) = (Arc::clone(&plane), Arc::clone(&hold), Arc::clone(&common), came.clone());
        let left = leaving.subscribe();
        letters.spawn(async move {
            let number = number as u32;
            let ended = carry(&plane, &hold, (&letter, &common), (number, &came), left).await;
            let (error, failure) = ended.map_or_else(
                |error| (error.to_string(), error.failure()),
                |()| (String::new(), Failure::Unspecified),
            );
            let over = Delivery {
                letter: number,
                over: true,
                error,
                failure: failure.into(),
                ..Delivery::default()
            };
            // Only a controller that has gone does not listen.
            let _ = came.send(over).await;
        });
    }
    drop(came);
    let gathering = async {
        while let Some(first) = coming.recv().await {
            let mut deliveries = vec![first];
            let more = async {
                while deliveries.len() < MOST_DELIVERIES
                    && let Some(next) = coming.recv().await
                {
                    deliveries.push(next);
                }
            };
            // Without letters that are left, no more will come.
            let _ = tokio::time::timeout(gather, more).await;
            if replies.send(Ok(ForwardReply { deliveries })).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        // The controller may still want the answers, through another agent.
        () = hold.over() => return,
        () = gathering => {}
        () = replies.closed() => {}
    }
    leaving.send_replace(true);
    let _ = tokio::time::timeout(LEAVE_LIMIT, async { while letters.join_next().await.is_some() {} }).await;
}

/// Brings a letter to its peer, and passes its answers on until the peer closes the connection.
async fn carry(
    plane: &Arc<Plane>,
    hold: &Arc<Hold>,
    (letter, common): (&Letter, &[u8]),
    (number, came): (u32, &Sender<Delivery>),
    mut left: watch::Receiver<bool>,
) -> Result<(), WorkError> {
    let call = Call {
        plane,
        hold,
        peer: hold.peers.get(&letter.peer)?,
        work: Work::Lettered(Lettered {}),
        congestion: "",
        connect: LIMIT,
        patience: None,
        ready: LIMIT,
    };
    let carrying = async {
        let mut connection = call.dial().await?;
        parts::send(&mut connection, &letter.sealed).await?;
        parts::send(&mut connection, common).await?;
        loop {
            let received = tokio::select! {
                received = parts::receive(&mut connection, MAX_ANSWER_BYTES) => Some(received),
                _ = left.wait_for(|left| *left) => None,
            };
            let Some(received) = received else {
                let last = Part {
                    bytes: Vec::new(),
                    last: true,
                };
                return connection.send(&last).await;
            };
            match received {
                Ok(sealed) => {
                    let answer = Delivery {
                        letter: number,
                        sealed,
                        ..Delivery::default()
                    };
                    // A controller that has gone does not listen. `left` says so next.
                    let _ = came.send(answer).await;
                }
                Err(WorkError::Handshake(HandshakeError::Frame(FrameError::Closed))) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    };
    hold.dropped.unless(&letter.peer, carrying).await
}
