//! Finds the routers between this host and a peer, on a blocking thread and without the peer's help.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::route::Prober;

use tonic::async_trait;

use crate::contract::agents::{Hop, ProbeReply, Traceroute, TracerouteResult, probe_reply};
use crate::error::WorkError;
use crate::plane::dial::{Call, Connection};
use crate::plane::leash::Leash;
use crate::work::kind::{Answer, Ask};
use crate::work::visit::Visit;

const MAX_HOPS: u32 = 30;
const TRIES: u32 = 3;
/// Linux routers send a host six answers at once, then one per second: three attempts outlast that.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Number of consecutive silent hops after which the search ends.
const MAX_SILENT: usize = 5;

/// A checked traceroute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    max_hops: u8,
    tries: u32,
    timeout: Duration,
}

impl Spec {
    /// Checks a probe's parameters; zeros mean defaults.
    ///
    /// # Errors
    /// A text that names the parameter that is out of range.
    pub fn new(asked: &Traceroute) -> Result<Self, WorkError> {
        let refuse = |text: String| Err(WorkError::Request(text));
        let or = |asked: u32, default: u32| if asked == 0 { default } else { asked };
        let (max_hops, tries) = (or(asked.max_hops, MAX_HOPS), or(asked.tries, TRIES));
        let Some(max_hops) = u8::try_from(max_hops).ok().filter(|hops| *hops <= 64) else {
            return refuse(format!("traceroute.max_hops: at most 64, not {max_hops}"));
        };
        if tries > 10 {
            return refuse(format!("traceroute.tries: at most 10, not {tries}"));
        }
        let timeout = match Duration::try_from_secs_f64(asked.timeout_s) {
            Ok(Duration::ZERO) => TIMEOUT,
            Ok(time) if time <= Duration::from_secs(5) => time,
            _ => return refuse(format!("traceroute.timeout_s: at most 5, not {}", asked.timeout_s)),
        };
        Ok(Self {
            max_hops,
            tries,
            timeout,
        })
    }
}

#[async_trait]
impl Ask for Spec {
    async fn ask(&self, call: &Call<'_>, _: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let (local, peer, spec) = (call.plane.source(), call.peer, *self);
        let (_leash, cut) = Leash::new();
        let tracing = tokio::task::spawn_blocking(move || hops(local, peer, spec, &cut));
        let result = tracing.await.map_err(|_| WorkError::Over)??;
        if result.reached {
            reply.hops = result.hops.len() as u32;
        }
        reply.result = Some(probe_reply::Result::Traceroute(result));
        Ok(())
    }
}

/// The peer only waits for the visit: the routers answer.
#[async_trait]
impl Answer for Spec {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.warm_up().await
    }
}

fn hops(
    local: Option<IpAddr>,
    peer: SocketAddr,
    spec: Spec,
    cut: &AtomicBool,
) -> Result<TracerouteResult, SocketError> {
    let mut prober = Prober::open(local, peer)?;
    let mut result = TracerouteResult::default();
    let mut silent = 0;
    for hops in 1..=spec.max_hops {
        let mut hop = Hop::default();
        let mut last = false;
        for _ in 0..spec.tries {
            if cut.load(Ordering::Relaxed) {
                return Ok(result);
            }
            if let Some((answer, took)) = prober.probe(hops, spec.timeout)? {
                hop = Hop {
                    address: answer.address.to_string(),
                    rtt_s: took.as_secs_f64(),
                };
                last = answer.last;
                result.reached = answer.address == peer.ip();
                break;
            }
        }
        silent = if hop.address.is_empty() { silent + 1 } else { 0 };
        result.hops.push(hop);
        if last || silent >= MAX_SILENT {
            break;
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_out_of_range_are_named() {
        let asked = Traceroute::default();
        assert_eq!(Spec::new(&asked).unwrap().max_hops, 30);
        let refused = |asked: Traceroute| Spec::new(&asked).unwrap_err().to_string();
        assert!(refused(Traceroute { max_hops: 65, ..asked }).contains("max_hops"));
        assert!(refused(Traceroute { tries: 11, ..asked }).contains("tries"));
        for timeout_s in [-1.0, 6.0, f64::NAN] {
            assert!(refused(Traceroute { timeout_s, ..asked }).contains("timeout_s"));
        }
    }
}
