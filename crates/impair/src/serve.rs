//! Runs an element: one thread between all interfaces of its network namespace.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use gavotte_kernel::packet::{OFFLOAD_BYTES, Packet, PacketSocket, SEND_BATCH};
use gavotte_kernel::priority::run_first;
use nix::sys::prctl::set_timerslack;

use crate::element::{Element, LaneId};
use crate::plan::{LanePlan, Match, Plan};
use crate::time::Nanos;

/// Memory for packets that wait in lanes, in bytes.
const MOST_BYTES: usize = 1 << 30;
/// Bytes that the kernel needs before the frame in a slot.
const SLOT_HEADER_BYTES: usize = 256;
/// Memory for frames that the kernel has received and the element has not read, in bytes. At 100,000 packets per second
/// of 1,514 bytes, this bridges a pause of 100 ms or more.
const RING_BYTES: usize = 64 << 20;
const MOST_SLOTS: usize = 16_384;
/// Number of frames that are read before the element sends those that are due.
const READ_BATCH: usize = 128;
/// An older timestamp is ignored: the clock was set.
const OLDEST: Duration = Duration::from_secs(1);
/// How often the element asks the kernel for the number of frames that found the ring full.
const LOOK: Duration = Duration::from_secs(1);

/// The destination of frames from one interface.
#[derive(Debug)]
struct Way {
    exit: u32,
    lanes: Vec<(Option<Match>, LaneId)>,
    /// The destination of frames that match no lane.
    rest: LaneId,
}

/// An element with its socket.
#[derive(Debug)]
pub struct Server {
    socket: PacketSocket,
    element: Element<Packet>,
    ways: HashMap<u32, Way>,
    epoch: Instant,
    batch: Vec<Packet>,
    faults: Faults,
}

/// Packets that were lost although no lane dropped them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Frames that found the ring full: the element was too slow.
    pub missed: u64,
    /// Frames that were larger than a slot, or had a VLAN tag.
    pub odd: u64,
    /// Frames that the kernel did not send.
    pub refused: u64,
    /// Frames for which the element had no memory.
    pub crowded: u64,
}

impl fmt::Display for Faults {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            missed,
            odd,
            refused,
            crowded,
        } = self;
        let lost = missed + odd + refused + crowded;
        write!(
            text,
            "links lost {lost} packets that they should have carried: {missed} came too fast, {odd} were too large or had \
             a VLAN tag, {refused} did not fit the interface, {crowded} did not fit the memory"
        )
    }
}

impl Server {
    /// Opens the socket in this thread's network namespace, in which the interfaces of the plan exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(plan: &Plan) -> io::Result<Self> {
        // Run before other processes, whose load would delay packets. Without root's rights this fails.
        let _ = run_first();
        // Otherwise the kernel lets timers expire up to 0.05 ms late.
        set_timerslack(1)?;
        let slot_bytes = (plan.largest_bytes + SLOT_HEADER_BYTES).next_multiple_of(16);
        let slots = (RING_BYTES / slot_bytes).min(MOST_SLOTS);
        let mut element = Element::new(MOST_BYTES);
        let mut ways = HashMap::new();
        for wire in &plan.wires {
            for (way, lanes) in wire.ways.iter().enumerate() {
                let lanes = lanes
                    .iter()
                    .map(|lane: &LanePlan| (lane.address.clone(), element.add(lane.profile())));
                let lanes = lanes.collect();
                let rest = element.add(crate::lane::Profile::default());
                let exit = wire.ends[1 - way];
                ways.insert(wire.ends[way], Way { exit, lanes, rest });
            }
        }
        Ok(Self {
            socket: PacketSocket::open(slot_bytes, slots)?,
            element,
            ways,
            epoch: Instant::now(),
            batch: Vec::with_capacity(SEND_BATCH),
            faults: Faults::default(),
        })
    }

    /// Forwards packets until the socket fails. Calls `report` when there are new faults.
    ///
    /// # Errors
    /// The socket's error.
    pub fn run(mut self, mut report: impl FnMut(Faults)) -> io::Result<()> {
        let mut reported = Faults::default();
        let mut looked = Instant::now();
        loop {
            let more = self.read();
            let now = self.now();
            let sent = self.send_due(now);
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.faults.missed += u64::from(self.socket.missed()?);
                self.faults.crowded = self.element.counts().crowded;
                if self.faults != reported {
                    reported = self.faults;
                    report(reported);
                }
            }
            if !more && !sent {
                let most = self.element.next().map(|due| due.saturating_sub(self.now()).into());
                self.socket.wait(most)?;
            }
        }
    }

    /// Reads frames into their lanes. Returns whether more may be waiting.
    fn read(&mut self) -> bool {
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Nanos::from(self.epoch.elapsed());
        for _ in 0..READ_BATCH {
            let Some(received) = self.socket.receive() else {
                return false;
            };
            let Some(way) = self.ways.get(&received.interface) else {
                continue;
            };
            if !received.whole {
                self.faults.odd += 1;
                continue;
            }
            // A frame's delay starts when the kernel received it.
            let age = real.saturating_sub(received.received);
            let age = if age <= OLDEST { age } else { Duration::ZERO };
            let arrived = now.saturating_sub(age.into());
            let frame = &received.bytes[OFFLOAD_BYTES..];
            let fits = |address: &Option<Match>| address.as_ref().is_none_or(|address| address.fits(frame));
            let lane = way.lanes.iter().find(|(address, _)| fits(address));
            let lane = lane.map_or(way.rest, |(_, lane)| *lane);
            let packet = Packet {
                interface: way.exit,
                bytes: received.bytes.into(),
            };
            self.element.offer(lane, arrived, frame.len(), packet);
        }
        true
    }

    /// Sends a batch of frames that are due. Returns whether there were any.
    fn send_due(&mut self, now: Nanos) -> bool {
        while self.batch.len() < SEND_BATCH
            && let Some(packet) = self.element.take(now)
        {
            self.batch.push(packet);
        }
        let mut at = 0;
        while at < self.batch.len() {
            // The kernel refuses a frame that is too large for the interface; it counts as lost on the cable.
            match self.socket.send(&self.batch[at..]) {
                Ok(count) => at += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.faults.refused += 1;
                    at += 1;
                }
            }
        }
        let any = !self.batch.is_empty();
        self.batch.clear();
        any
    }

    fn now(&self) -> Nanos {
        self.epoch.elapsed().into()
    }
}
