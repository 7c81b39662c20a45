//! Greetings: check separately whether a peer's data port is reachable by TCP and by UDP. They belong to no round, and
//! a greeting without an answer does not drop the peer.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gavotte_probe::packet::{HEADER_BYTES, Packet};
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::receiver::{Datagram, TrainReceiver};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tonic::async_trait;
use tracing::debug;

use crate::contract::agents::{Greeting, Reception};
use crate::contract::data::{Greet, hello::Work};
use crate::error::WorkError;
use crate::hold::Hold;
use crate::hold::jobs::Job;
use crate::plane::Plane;
use crate::plane::dial::Call;
use crate::work::kind::Answer;
use crate::work::visit::Visit;

/// How long a peer may take by default: a first packet that was lost is repeated after 1 s.
const LIMIT: Duration = Duration::from_secs(3);
const LONGEST_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two UDP greetings.
const AGAIN: Duration = Duration::from_millis(200);
/// How long the listener keeps the socket before trains may use it.
const TURN: Duration = Duration::from_millis(50);
/// Burst number of a greeting, and then that of its answer.
const ASKED: u32 = 0;
const ANSWERED: u32 = 1;

/// The side that receives a TCP greeting: it only sends its welcome.
pub struct Answered;

#[async_trait]
impl Answer for Answered {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.welcome(0).await
    }
}

/// Returns how long each peer may take.
///
/// # Errors
/// If the number of seconds is out of range.
pub fn limit(limit_s: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(limit_s) {
        Ok(Duration::ZERO) => Ok(LIMIT),
        Ok(limit) if limit <= LONGEST_LIMIT => Ok(limit),
        _ => Err(format!("limit_s: at most {}, not {limit_s}", LONGEST_LIMIT.as_secs())),
    }
}

/// Greets all `peers` at the same time.
///
/// # Errors
/// If a peer is not enrolled.
pub async fn greet(
    plane: &Arc<Plane>,
    hold: &Arc<Hold>,
    peers: Vec<String>,
    tcp_only: bool,
    limit: Duration,
) -> Result<Vec<Greeting>, WorkError> {
    let mut greetings = JoinSet::new();
    for (place, peer) in peers.into_iter().enumerate() {
        hold.peers.check(&peer)?;
        let address = hold.peers.get(&peer);
        let (plane, hold) = (Arc::clone(plane), Arc::clone(hold));
        greetings.spawn(async move {
            let (by_tcp, by_udp) = match address {
                Ok(address) => tokio::join!(over_tcp(&plane, &hold, address, limit), async {
                    if tcp_only {
                        return None;
                    }
                    Some(over_udp(&plane, &hold, address, limit).await)
                }),
                Err(error) => {
                    let reason = error.to_string();
                    (Err(error), (!tcp_only).then_some(Err(WorkError::NoInterface(reason))))
                }
            };
            let narrow_bytes = address_of(&hold, &peer).and_then(|ip| plane.mtus.get(ip));
            let (tcp, tcp_error) = reception(by_tcp);
            let (udp, udp_error) = by_udp.map_or((Reception::Unspecified, String::new()), reception);
            let greeting = Greeting {
                peer,
                tcp: tcp.into(),
                tcp_error,
                udp: udp.into(),
                udp_error,
                mtu_bytes: narrow_bytes.unwrap_or(0),
            };
            (place, greeting)
        });
    }
    let mut greetings = greetings.join_all().await;
    greetings.sort_by_key(|(place, _)| *place);
    Ok(greetings.into_iter().map(|(_, greeting)| greeting).collect())
}

fn address_of(hold: &Hold, peer: &str) -> Option<IpAddr> {
    hold.peers.get(peer).ok().map(|address| address.ip())
}

async fn over_tcp(plane: &Arc<Plane>, hold: &Arc<Hold>, peer: SocketAddr, limit: Duration) -> Result<(), WorkError> {
    let call = Call {
        plane,
        hold,
        peer,
        work: Work::Greet(Greet {}),
        congestion: "",
        connect: limit,
        patience: None,
        ready: limit,
    };
    call.dial_directly().await.map(drop)
}

async fn over_udp(plane: &Plane, hold: &Hold, peer: SocketAddr, limit: Duration) -> Result<(), WorkError> {
    const OPERATION: &str = "greet over UDP";
    let any = if peer.is_ipv4() {
        IpAddr::from(Ipv4Addr::UNSPECIFIED)
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let key = hold.secret.packet_key();
    let asked = Packet {
        probe_id: rand::random(),
        burst: ASKED,
        seq: 0,
        sent_ns: 0,
    };
    let (mut bytes, mut came) = ([0; HEADER_BYTES], [0; HEADER_BYTES]);
    // A buffer of a header's length always has room for one.
    let _ = asked.write(&key, &mut bytes);
    let greeting = async {
        let socket = UdpSocket::bind((plane.source().unwrap_or(any), 0)).await?;
        socket.connect(peer).await?;
        let mut failure = None;
        let mut again = tokio::time::interval(AGAIN);
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            // A single refusal may come from a port that the agent has not bound yet, so the last result counts.
            let step = tokio::select! {
                _ = again.tick() => socket.send(&bytes).await.map(|_| false),
                read = socket.recv(&mut came) => read.map(|length| {
                    let answer = came.get(..length).and_then(|bytes| Packet::read(&key, bytes).ok());
                    answer == Some(Packet { burst: ANSWERED, ..asked })
                }),
                () = tokio::time::sleep_until(deadline) => return Err(failure.unwrap_or_else(|| ErrorKind::TimedOut.into())),
            };
            match step {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => failure = Some(error),
            }
        }
    };
    match greeting.await {
        Err(error) if error.kind() == ErrorKind::TimedOut => Err(WorkError::Late {
            operation: OPERATION,
            limit,
        }),
        result => result.map_err(WorkError::io(OPERATION)),
    }
}

/// The result of a greeting, as a code and as a text.
fn reception(greeted: Result<(), WorkError>) -> (Reception, String) {
    let Err(error) = greeted else {
        return (Reception::Answered, String::new());
    };
    let reception = match &error {
        WorkError::Late { .. } => Reception::Silent,
        WorkError::Io { source, .. } => of_system(source),
        WorkError::NoInterface(_) => Reception::Unreachable,
        _ => Reception::TurnedAway,
    };
    (reception, error.to_string())
}

fn of_system(error: &io::Error) -> Reception {
    match error.kind() {
        ErrorKind::ConnectionRefused => Reception::Refused,
        ErrorKind::PermissionDenied => Reception::Forbidden,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Reception::Unreachable,
        ErrorKind::TimedOut => Reception::Silent,
        _ => Reception::TurnedAway,
    }
}

/// Answers UDP greetings until `hold` is over. Trains take precedence: they get the socket as soon as one needs it.
pub async fn listen(plane: Arc<Plane>, hold: Arc<Hold>, job: Job) {
    let answering = async {
        loop {
            let receiver = Arc::clone(&plane.receiver).lock_owned().await;
            let plane = Arc::clone(&plane);
            let turn = tokio::task::spawn_blocking(move || {
                let mut receiver = receiver;
                answer_for(&plane, &mut receiver, Instant::now() + TURN)
            });
            turn.await.map_err(|_| WorkError::Over)??;
        }
    };
    let ended: Result<(), WorkError> = hold.during(answering).await;
    if let Err(error) = ended {
        debug!(%error, "no longer listens for greetings");
    }
    drop(job);
}

/// Answers the greetings that arrive until `until`, for every run that holds the agent: the listener reads those of all
/// runs.
fn answer_for(plane: &Plane, receiver: &mut TrainReceiver, until: Instant) -> Result<(), SocketError> {
    while Instant::now() < until {
        let mut answers = Vec::new();
        receiver.receive(until, |datagram| {
            answers.extend(answer(plane, &datagram).map(|bytes| (datagram.from(), bytes)));
        })?;
        for (to, bytes) in answers {
            receiver.answer(to, &bytes);
        }
    }
    Ok(())
}

fn answer(plane: &Plane, datagram: &Datagram<'_>) -> Option<[u8; HEADER_BYTES]> {
    let nowhere = Ipv4Addr::UNSPECIFIED.into();
    let holds = plane.holds.list();
    let mut enrolled = holds.iter().filter(|hold| hold.peers.admit(datagram.source, nowhere));
    enrolled.find_map(|hold| {
        let key = hold.secret.packet_key();
        let asked = Packet::read(&key, datagram.kept).ok()?;
        let mut bytes = [0; HEADER_BYTES];
        let answer = Packet {
            burst: ANSWERED,
            ..asked
        };
        let sound = asked.burst == ASKED && datagram.length == HEADER_BYTES;
        let written = sound && answer.write(&key, &mut bytes).is_ok();
        written.then(|| {
            greeters(hold).insert(datagram.source);
            bytes
        })
    })
}

/// The addresses from which UDP greetings have arrived, as text.
pub fn heard(hold: &Hold) -> Vec<String> {
    greeters(hold).iter().map(ToString::to_string).collect()
}

fn greeters(hold: &Hold) -> MutexGuard<'_, BTreeSet<IpAddr>> {
    // The lock cannot be poisoned half-way through a change: no code panics while it is held.
    hold.greeters.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{CONNECT, GREET, READY};

    #[test]
    fn failures_say_who_is_in_the_way() {
        let of = |kind: ErrorKind| reception(Err(WorkError::io(CONNECT)(kind.into()))).0;
        assert_eq!(of(ErrorKind::ConnectionRefused), Reception::Refused);
        assert_eq!(of(ErrorKind::PermissionDenied), Reception::Forbidden);
        assert_eq!(of(ErrorKind::NetworkUnreachable), Reception::Unreachable);
        for operation in [CONNECT, GREET, READY] {
            let late = WorkError::Late {
                operation,
                limit: LIMIT,
            };
            assert_eq!(reception(Err(late)).0, Reception::Silent);
        }
        assert_eq!(reception(Err(WorkError::Over)).0, Reception::TurnedAway);
        assert_eq!(reception(Ok(())), (Reception::Answered, String::new()));
    }

    #[test]
    fn limits_are_bounded() {
        assert_eq!(limit(0.0), Ok(LIMIT));
        assert_eq!(limit(0.5), Ok(Duration::from_millis(500)));
        assert!(limit(31.0).is_err() && limit(-1.0).is_err() && limit(f64::NAN).is_err());
    }
}
