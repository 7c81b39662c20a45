//! The loop: every period counts are read, words heard and said, and rates set.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gavotte_limiter::{Allocator, Arrivals, End, Held, Partitioner};
use gavotte_shaper::{PairRate, Setup, Shaper, ShaperError, UNLIMITED_BPS, UNNUMBERED, UNSHAPED};
use nix::sys::socket::{setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use thiserror::Error;
use tracing::warn;

use crate::contract::agents::{GuardedPair, GuardedReply};
use crate::guarantee::pair::Pair;
use crate::guarantee::plan::{Hose, Plan};
use crate::guarantee::talk::{BYTES, TalkKey, Word};

/// Packets that the phantom queue of a quiet host may hold.
const THRESHOLD_BYTES: u64 = 40_000;
/// More for each active pair: its packets come in bursts.
const THRESHOLD_PAIR_BYTES: u64 = 3_000;
/// A pair's class is kept for so long after its last packet.
const LINGER_S: f64 = 2.0;
/// Words heard at one time.
const MOST_WORDS: usize = 4096;

/// Why guarantees cannot be kept here.
#[derive(Debug, Error)]
pub(super) enum KeepError {
    /// The data path.
    #[error(transparent)]
    Shaper(#[from] ShaperError),
    /// The socket between the agents.
    #[error("UDP port {port} of {address}, over which agents speak of guarantees: {source}")]
    Socket {
        /// The host's own address.
        address: Ipv4Addr,
        /// The port above the data port.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
}

/// Keeps the guarantees of one host, until this is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    plan: Plan,
    key: TalkKey,
    shaper: Shaper,
    socket: UdpSocket,
    sources: Partitioner<Ipv4Addr>,
    targets: Partitioner<Ipv4Addr>,
    arrivals: Arrivals<Ipv4Addr>,
    pairs: BTreeMap<Ipv4Addr, Pair>,
    active_s: BTreeMap<Ipv4Addr, f64>,
    begin: Instant,
    applied: Instant,
    partition_s: f64,
    number: u64,
    epoch: u32,
    control_bytes: u64,
}

impl Keeper {
    /// Takes the host's interface. To be called in the thread that goes on with it.
    pub(super) fn new(plan: Plan) -> Result<Self, KeepError> {
        let shaper = Shaper::install(setup(&plan))?;
        let socket = socket(&plan)?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut keeper = Self {
            key: TalkKey::derive(&plan.key),
            shaper,
            socket,
            sources: Partitioner::new(End::Target, hose_bps(plan.own.ingress_bps), &plan.parameters.partition),
            targets: Partitioner::new(End::Source, hose_bps(plan.own.egress_bps), &plan.parameters.partition),
            arrivals: Arrivals::new(),
            pairs: BTreeMap::new(),
            active_s: BTreeMap::new(),
            begin: Instant::now(),
            applied: Instant::now(),
            partition_s: 0.0,
            number: unix.as_nanos() as u64,
            epoch: unix.subsec_nanos() ^ unix.as_secs() as u32,
            control_bytes: 0,
            plan,
        };
        keeper.meet()?;
        Ok(keeper)
    }

    /// Changes what is kept. What goes on goes on.
    pub(super) fn change(&mut self, plan: Plan) -> Result<(), KeepError> {
        let now_s = self.now_s();
        if plan.own.place != self.plan.own.place || plan.ecn != self.plan.ecn {
            // Other programs, or another interface. The claim must be given back first.
            return Err(KeepError::Shaper(ShaperError::Claimed));
        }
        let Setup {
            limit_bps,
            newcomers_bps,
            ..
        } = setup(&plan);
        self.shaper.limit(limit_bps, newcomers_bps)?;
        if plan.parameters == self.plan.parameters {
            self.sources.set_hose(hose_bps(plan.own.ingress_bps));
            self.targets.set_hose(hose_bps(plan.own.egress_bps));
        } else {
            let rules = &plan.parameters.partition;
            self.sources = Partitioner::new(End::Target, hose_bps(plan.own.ingress_bps), rules);
            self.targets = Partitioner::new(End::Source, hose_bps(plan.own.egress_bps), rules);
            for pair in self.pairs.values_mut() {
                pair.out.allocator = None;
            }
        }
        let gone: Vec<_> = self
            .pairs
            .keys()
            .filter(|peer| !plan.peers.contains_key(*peer))
            .copied()
            .collect();
        for peer in gone {
            self.shaper.idle(peer)?;
            self.targets.forget(peer);
            self.sources.forget(peer);
            self.pairs.remove(&peer);
            self.active_s.remove(&peer);
        }
        self.key = TalkKey::derive(&plan.key);
        self.plan = plan;
        self.applied = Instant::now();
        for (peer, pair) in &mut self.pairs {
            if let Some(allocator) = &mut pair.out.allocator {
                allocator.set_ceiling(ceiling_bps(&self.plan, &self.plan.peers[peer]));
            }
        }
        self.meet()?;
        self.partition(now_s);
        Ok(())
    }

    /// Knows all peers.
    fn meet(&mut self) -> Result<(), KeepError> {
        let mut fixed = Vec::new();
        for (peer, hose) in &self.plan.peers {
            self.pairs.entry(*peer).or_default();
            self.shaper.watch(*peer)?;
            let bps = self.plan.fixed_bps(hose);
            if bps.is_finite() {
                fixed.push(PairRate {
                    target: *peer,
                    rate_bps: bps,
                    ceil_bps: bps,
                });
            }
        }
        // Nobody counts who is active: a static reservation for everyone.
        if self.shaper.without_bpf().is_some() {
            self.shaper.set(&fixed)?;
        }
        Ok(())
    }

    fn now_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// How long to wait between two calls of [`Self::step`].
    pub(super) fn period(&self) -> Duration {
        let period_s = self.plan.parameters.allocation.period_s;
        Duration::from_secs_f64(period_s.clamp(0.001, 1.0))
    }

    /// One period.
    pub(super) fn step(&mut self) -> Result<(), KeepError> {
        let now_s = self.now_s();
        self.hear(now_s);
        self.count_arrivals(now_s);
        self.count_sent(now_s);
        if now_s - self.partition_s >= self.plan.parameters.partition.period_s {
            self.partition(now_s);
            self.phantom();
            self.rest(now_s)?;
        }
        self.set_rates(now_s)?;
        self.say(now_s);
        Ok(())
    }

    /// Takes all words that have come.
    fn hear(&mut self, now_s: f64) {
        let mut bytes = [0; BYTES + 1];
        for _ in 0..MOST_WORDS {
            let Ok(length) = self.socket.recv(&mut bytes) else {
                break;
            };
            let Some(word) = Word::open(&self.key, &bytes[..length]) else {
                continue;
            };
            if word.to == *self.plan.own.place.ip() {
                self.take(now_s, &word);
            }
        }
    }

    fn take(&mut self, now_s: f64, word: &Word) {
        let Some(pair) = self.pairs.get_mut(&word.from) else {
            return;
        };
        if word.number <= pair.number {
            return;
        }
        pair.number = word.number;
        pair.heard_s = Some(now_s);
        if pair.epoch.replace(word.epoch) != Some(word.epoch) {
            self.shaper.renumber(word.from);
            pair.incoming.renumber();
        }
        if let Some(offer) = word.as_source {
            self.sources.hear(word.from, now_s, offer);
        }
        if let Some(offer) = word.as_target {
            self.targets.hear(word.from, now_s, offer);
        }
        if let Some(feedback) = pair.out.report(now_s, word.tally)
            && let Some(allocator) = &mut pair.out.allocator
        {
            let guarantee_bps = self.targets.guarantee_bps(word.from, now_s).unwrap_or(0.0);
            allocator.feedback(now_s, &feedback, guarantee_bps);
        }
    }

    /// Reads what has come, and charges what was lost.
    fn count_arrivals(&mut self, now_s: f64) {
        for (peer, pair) in &mut self.pairs {
            let counts = pair.incoming.count(self.shaper.received(*peer), self.plan.ecn);
            if counts.bytes > 0.0 || counts.lost_bytes > 0.0 {
                self.sources.observe(*peer, counts.bytes as u64, f64::INFINITY);
                self.arrivals.note(*peer, counts);
                pair.incoming.guarantee_bps = self.sources.guarantee_bps(*peer, now_s).unwrap_or(0.0);
            }
        }
        let pooled = self.plan.parameters.allocation.pooled_loss;
        for (peer, counts) in self.arrivals.report(pooled) {
            if let Some(pair) = self.pairs.get_mut(&peer) {
                pair.incoming.charge(&counts);
            }
        }
    }

    /// Reads what was sent; a pair that begins gets its allocator.
    fn count_sent(&mut self, now_s: f64) {
        let Some(hose_bps) = self.plan.own.egress_bps else {
            return;
        };
        for (peer, pair) in &mut self.pairs {
            let (bytes, active) = pair.out.count(self.shaper.sent(*peer));
            if active {
                let limit_bps = pair.out.allocator.as_ref().map(|own| own.limit_bps(now_s));
                self.targets.observe(*peer, bytes, limit_bps.unwrap_or(hose_bps));
                self.active_s.insert(*peer, now_s);
                if limit_bps.is_none() {
                    let rules = &self.plan.parameters.allocation;
                    let guarantee_bps = self.targets.guarantee_bps(*peer, now_s).unwrap_or(0.0);
                    let most_bps = ceiling_bps(&self.plan, &self.plan.peers[peer]);
                    pair.out.guarantee_bps = guarantee_bps;
                    pair.out.allocator = Some(Allocator::new(now_s, guarantee_bps, guarantee_bps, most_bps, rules));
                }
            }
            pair.out.judge(now_s);
        }
    }

    /// Divides both hoses anew.
    fn partition(&mut self, now_s: f64) {
        self.partition_s = now_s;
        for pair in self.pairs.values_mut() {
            (pair.out.offer, pair.incoming.offer) = (None, None);
        }
        if self.plan.own.egress_bps.is_some() {
            for share in self.targets.partition(now_s) {
                if let Some(pair) = self.pairs.get_mut(&share.peer) {
                    pair.out.offer = Some(share.offer());
                    pair.out.guarantee_bps = share.guarantee_bps;
                }
            }
        }
        if self.plan.own.ingress_bps.is_some() {
            for share in self.sources.partition(now_s) {
                if let Some(pair) = self.pairs.get_mut(&share.peer) {
                    pair.incoming.offer = Some(share.offer());
                    pair.incoming.guarantee_bps = share.guarantee_bps;
                }
            }
        }
    }

    /// The edge's phantom queue: only where the host has a maximum is it known what it must keep below.
    fn phantom(&mut self) {
        let drain_bps = self.plan.own.ingress_limit_bps.unwrap_or(0.0) * self.plan.parameters.phantom_drain;
        let active = self.pairs.values().filter(|pair| pair.incoming.offer.is_some()).count() as u64;
        let drain_bps = if self.plan.ecn { drain_bps as u64 } else { 0 };
        self.shaper
            .phantom(drain_bps, THRESHOLD_BYTES + THRESHOLD_PAIR_BYTES * active);
    }

    /// Lets pairs go that have been idle for a while.
    fn rest(&mut self, now_s: f64) -> Result<(), KeepError> {
        let idle: Vec<_> = self
            .active_s
            .iter()
            .filter(|(_, at_s)| now_s - **at_s > LINGER_S)
            .map(|(peer, _)| *peer)
            .collect();
        for peer in idle {
            self.active_s.remove(&peer);
            self.shaper.idle(peer)?;
            if let Some(pair) = self.pairs.get_mut(&peer) {
                pair.out.allocator = None;
            }
        }
        Ok(())
    }

    fn set_rates(&mut self, now_s: f64) -> Result<(), KeepError> {
        let plan = &self.plan;
        let rates: Vec<_> = self
            .active_s
            .keys()
            .filter_map(|peer| {
                let out = &self.pairs.get(peer)?.out;
                let allocator = out.allocator.as_ref()?;
                let ceil_bps = limit_bps(plan, allocator, now_s, out.guarantee_bps);
                Some(PairRate {
                    target: *peer,
                    rate_bps: out.guarantee_bps.min(ceil_bps),
                    ceil_bps,
                })
            })
            .collect();
        if self.shaper.without_bpf().is_none() {
            self.shaper.set(&rates)?;
        }
        Ok(())
    }

    /// Tells others what is new.
    fn say(&mut self, now_s: f64) {
        for (peer, pair) in &mut self.pairs {
            if !pair.is_due(now_s) {
                continue;
            }
            self.number += 1;
            let word = Word {
                from: *self.plan.own.place.ip(),
                to: *peer,
                number: self.number,
                tally: pair.incoming.tally(),
                as_source: pair.out.offer,
                as_target: pair.incoming.offer,
                epoch: self.epoch,
            };
            // A host that is gone says so by ICMP; its silence is what counts.
            if self
                .socket
                .send_to(&word.seal(&self.key), self.plan.peers[peer].place)
                .is_ok()
            {
                self.control_bytes += BYTES as u64 + 42;
            }
        }
    }

    /// How it all stands.
    pub(super) fn status(&self) -> GuardedReply {
        let now_s = self.now_s();
        let mut pairs = Vec::new();
        let mut silent = Vec::new();
        for (peer, pair) in &self.pairs {
            let hose = &self.plan.peers[peer];
            if !pair.out.was_active() {
                continue;
            }
            let allocator = pair.out.allocator.as_ref();
            let limit_bps = allocator.map_or(0.0, |own| limit_bps(&self.plan, own, now_s, pair.out.guarantee_bps));
            pairs.push(GuardedPair {
                source: self.plan.own.name.clone(),
                target: hose.name.clone(),
                ..pair.out.status(now_s, limit_bps.min(UNLIMITED_BPS as f64))
            });
            let silence_s = self.plan.parameters.allocation.silence_s;
            let sends = self
                .active_s
                .get(peer)
                .is_some_and(|at_s| now_s - at_s < silence_s / 2.0);
            if sends && pair.heard_s.is_none_or(|heard_s| now_s - heard_s > silence_s) {
                silent.push(hose.name.clone());
            }
        }
        let cpu = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
        GuardedReply {
            guarded: true,
            device: self.shaper.device().to_owned(),
            without_bpf: self.shaper.without_bpf().unwrap_or_default().to_owned(),
            age_s: self.applied.elapsed().as_secs_f64(),
            pairs,
            silent,
            cpu_s: cpu.as_secs_f64(),
            control_bytes: self.control_bytes,
            ..GuardedReply::default()
        }
    }

    /// The interface, and why it works without BPF if it does.
    pub(super) fn device(&self) -> (String, String) {
        let without = self.shaper.without_bpf().unwrap_or_default();
        if !without.is_empty() {
            warn!(without, "static guarantees only");
        }
        (self.shaper.device().to_owned(), without.to_owned())
    }
}

/// What a pair may send now. The allocator learns its guarantee with each report only, so it may be behind.
fn limit_bps(plan: &Plan, allocator: &Allocator, now_s: f64, guarantee_bps: f64) -> f64 {
    if plan.fixed || allocator.held(now_s) == Held::Silent {
        guarantee_bps
    } else if plan.parameters.allocation.guarantees {
        allocator.limit_bps(now_s).max(guarantee_bps)
    } else {
        allocator.limit_bps(now_s)
    }
}

/// A hose that nobody has set bounds nobody.
fn hose_bps(bps: Option<f64>) -> f64 {
    bps.unwrap_or(UNLIMITED_BPS as f64)
}

/// What a pair may have at most.
fn ceiling_bps(plan: &Plan, target: &Hose) -> f64 {
    let own = plan.own.egress_limit_bps.unwrap_or(f64::INFINITY);
    own.min(target.ingress_limit_bps.unwrap_or(f64::INFINITY))
}

fn setup(plan: &Plan) -> Setup {
    let limit_bps = plan.own.egress_limit_bps.map_or(UNLIMITED_BPS, |bps| bps as u64);
    Setup {
        address: *plan.own.place.ip(),
        limit_bps,
        newcomers_bps: plan.own.egress_bps.map_or(limit_bps, |bps| bps as u64),
        ect: plan.ecn,
        bpf: true,
    }
}

fn socket(plan: &Plan) -> Result<UdpSocket, KeepError> {
    let open = || {
        let socket = UdpSocket::bind(plan.own.place)?;
        socket.set_nonblocking(true)?;
        // Its packets wait in no class.
        setsockopt(&socket, sockopt::Ipv4Tos, &UNNUMBERED.into())?;
        setsockopt(&socket, sockopt::Priority, &(UNSHAPED as i32))?;
        Ok(socket)
    };
    open().map_err(|source| KeepError::Socket {
        address: *plan.own.place.ip(),
        port: plan.own.place.port(),
        source,
    })
}
