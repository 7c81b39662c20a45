//! Opens connections to peers that cannot open them: see [`crate::plane::callbacks`].

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::async_trait;
use tracing::{Instrument, debug, info};

use crate::contract::data::{CallMe, CalledBack, Line, hello::Work};
use crate::error::WorkError;
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::callbacks::Asked;
use crate::plane::connect::connect;
use crate::plane::dial::{Call, Connection};
use crate::work::kind::Answer;
use crate::work::visit::Visit;

/// How long a connection to a peer may take.
const LIMIT: Duration = Duration::from_millis(2500);
/// Pause before a broken line is opened again.
const AGAIN: Duration = Duration::from_secs(1);

/// Opens a line to each of some peers, and keeps the lines until the hold ends. Returns the names of the peers whose
/// lines are open.
///
/// # Errors
/// If a peer is not enrolled, or the hold ends.
pub async fn keep(plane: &Arc<Plane>, hold: &Arc<Hold>, peers: Vec<String>) -> Result<Vec<String>, WorkError> {
    for peer in &peers {
        hold.peers.get(peer)?;
    }
    let (opening, mut outcomes) = mpsc::unbounded_channel();
    let count = peers.len();
    for peer in peers {
        let (plane, hold, opening) = (Arc::clone(plane), Arc::clone(hold), opening.clone());
        let keeping = async move {
            let mut first = Some(opening);
            loop {
                let line = line(&plane, &hold, &peer, &mut first);
                let broken = hold.during(hold.dropped.unless(&peer, line)).await;
                if let (Some(first), Err(error)) = (first.take(), &broken) {
                    info!(peer, %error, "no line to this peer");
                    let _ = first.send((peer.clone(), false));
                }
                if matches!(broken, Err(WorkError::Over | WorkError::Dropped { .. })) {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::spawn(keeping.in_current_span());
    }
    let mut open = Vec::new();
    for _ in 0..count {
        if let Some((peer, true)) = outcomes.recv().await {
            open.push(peer);
        }
    }
    Ok(open)
}

type Opening = mpsc::UnboundedSender<(String, bool)>;

/// Opens a line, and connections that are requested over it.
async fn line(plane: &Arc<Plane>, hold: &Arc<Hold>, peer: &str, first: &mut Option<Opening>) -> Result<(), WorkError> {
    let call = call(plane, hold, peer, Work::Line(Line {}))?;
    let mut connection = call.dial().await?;
    if let Some(first) = first.take() {
        let _ = first.send((peer.to_owned(), true));
    }
    let mut openings = JoinSet::new();
    loop {
        let CallMe { number, mtu_bytes } = connection.channel.receive(&mut connection.stream).await?;
        let (plane, hold, peer) = (Arc::clone(plane), Arc::clone(hold), peer.to_owned());
        let opening = async move {
            if let Err(error) = open(&plane, &hold, &peer, Asked { number, mtu_bytes }).await {
                debug!(peer, %error, "could not open a connection for this peer");
            }
        };
        openings.spawn(opening.in_current_span());
        while openings.try_join_next().is_some() {}
    }
}

/// Opens one connection for a peer.
async fn open(plane: &Arc<Plane>, hold: &Arc<Hold>, peer: &str, asked: Asked) -> Result<(), WorkError> {
    let work = Work::CalledBack(CalledBack { number: asked.number });
    let call = call(plane, hold, peer, work)?;
    let known = plane.mtus.get(call.peer.ip());
    let most_bytes = known
        .into_iter()
        .chain(Some(asked.mtu_bytes).filter(|bytes| *bytes > 0))
        .min();
    let stream = connect(plane, call.peer, "", most_bytes).await?;
    let Connection { stream, .. } = call.welcomed(call.greet_over(stream).await?).await?;
    plane.callbacks.turn(stream);
    Ok(())
}

fn call<'a>(plane: &'a Arc<Plane>, hold: &'a Arc<Hold>, peer: &str, work: Work) -> Result<Call<'a>, WorkError> {
    Ok(Call {
        plane,
        hold,
        peer: hold.peers.get(peer)?,
        work,
        congestion: "",
        connect: LIMIT,
        patience: None,
        ready: LIMIT,
    })
}

/// The side that may ask for connections over the line.
pub struct Attached;

#[async_trait]
impl Answer for Attached {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        let plane = Arc::clone(&visit.guest.plane);
        let mut line = plane.callbacks.attach(visit.guest.hold.peers.get(&visit.guest.source)?);
        visit.welcome(0).await?;
        let mut byte = [0];
        loop {
            let asked = tokio::select! {
                asked = line.next() => asked,
                // The other side sends nothing more: the line is closed.
                _ = visit.guest.connection.stream.peek(&mut byte) => return Ok(()),
            };
            let Some(Asked { number, mtu_bytes }) = asked else {
                return Ok(());
            };
            visit.guest.connection.send(&CallMe { number, mtu_bytes }).await?;
        }
    }
}

/// The side that asked for a connection.
pub struct Delivered(pub u64);

#[async_trait]
impl Answer for Delivered {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        let callbacks = &Arc::clone(&visit.guest.plane).callbacks;
        if !callbacks.awaits(self.0) {
            return Err(WorkError::Request("no connection of this number is awaited".into()));
        }
        visit.welcome(0).await?;
        let copy = visit.guest.connection.stream.as_fd().try_clone_to_owned();
        let stream = copy.and_then(|copy| TcpStream::from_std(copy.into()));
        callbacks.deliver(self.0, stream.map_err(WorkError::io("take over a connection"))?);
        Ok(())
    }
}
