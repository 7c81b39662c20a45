//! Transfers on the wire: max-min fair rates for simulators that decide on their way what is sent next.

use gavotte_net::Seconds;

use crate::platform::Platform;
use crate::sharing::Finished;
use crate::traffic::{Start, Traffic};

/// A transfer to start.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The sending host.
    pub source: u32,
    /// The receiving host.
    pub target: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Highest rate in bit/s; infinite = no cap.
    pub cap_bps: f64,
    /// The caller's number of the transfer, also chooses one of several equal paths.
    pub number: u32,
    /// Whether only the links between the hosts limit it, since the hosts' token buckets let it pass.
    pub between: bool,
}

/// The transfers that are active now on a platform.
///
/// The caller owns the clock: it advances to the earlier of its own next event and [`Wire::next_s`], takes the finished
/// transfers, starts others, and asks again.
pub struct Wire<'a> {
    traffic: Traffic<'a>,
    finished: Vec<Finished>,
    settled: bool,
}

impl<'a> Wire<'a> {
    /// Creates a wire without transfers, at time 0.
    pub fn new(platform: &'a dyn Platform) -> Self {
        Self {
            traffic: Traffic::new(platform, 0.0),
            finished: Vec::new(),
            settled: true,
        }
    }

    /// Starts a transfer now. Returns `false` if nothing limits it, so that it takes no time.
    pub fn start(&mut self, transfer: &Transfer) -> bool {
        let started = transfer.bytes > 0
            && self
                .traffic
                .start(&Start {
                    owner: transfer.number,
                    source: transfer.source,
                    target: transfer.target,
                    label: u64::from(transfer.number),
                    between: transfer.between,
                    weight: 1.0,
                    cap_bps: transfer.cap_bps,
                    bytes: transfer.bytes as f64,
                })
                .is_some();
        self.settled &= !started;
        started
    }

    /// When the next transfer finishes, in seconds; infinite if none is active.
    pub fn next_s(&mut self) -> f64 {
        self.settle();
        self.traffic.sharing.next_s().unwrap_or(f64::INFINITY)
    }

    /// Advances time and appends the numbers of the transfers that finish now.
    ///
    /// PRECONDITION: `now_s` is neither before the present nor after [`Wire::next_s`].
    pub fn advance(&mut self, Seconds(now_s): Seconds, finished: &mut Vec<u32>) {
        self.settle();
        self.traffic.sharing.advance(Seconds(now_s));
        self.traffic.finish(&mut self.finished);
        self.settled &= self.finished.is_empty();
        finished.extend(self.finished.drain(..).map(|done| done.owner));
    }

    /// Makes the rates max-min fair again after transfers started or finished.
    fn settle(&mut self) {
        if !self.settled {
            self.traffic.sharing.settle();
            self.settled = true;
        }
    }
}
