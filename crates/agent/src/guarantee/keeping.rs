//! The control loop: each period it reads counters, exchanges datagrams with other agents, and sets rates.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use gavotte_limiter::{Allocator, Arrivals, Common, End, Offer, Partitioner, Reports};
use gavotte_net::{Bandwidth, Bytes, Seconds};
use gavotte_shaper::{PairRate, Received, Setup, Shaper, ShaperError, UNLIMITED_BPS};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use thiserror::Error;

use crate::guarantee::duty::{Duty, Hose};
use crate::guarantee::peer::Peer;
use crate::guarantee::rest::Rest;
use crate::guarantee::sockets::Sockets;
use crate::guarantee::talk::{TalkKey, first_number};
use crate::guarantee::tenant::Part;
use crate::guarantee::unlisted::Unlisted;
use crate::guarantee::watch::Watch;
use crate::guarantee::wire::Wire;

/// Threshold of the phantom queue of a host without active pairs, in bytes.
const THRESHOLD_BYTES: u64 = 40_000;
/// Added to the threshold for each active pair, since its packets arrive in bursts.
const THRESHOLD_PAIR_BYTES: u64 = 3_000;
/// A pair's class is kept for this long after its last packet.
const LINGER_S: f64 = 2.0;
/// How long the loop rests while many bytes arrive that it has to report.
const BUSY_S: f64 = 0.025;
const BUSY_BYTES: f64 = 50_000.0;
/// Names all hosts together whose packets have the same address, for the shaper.
const MIXED: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Why an agent cannot keep guarantees on this host.
#[derive(Debug, Error)]
pub(super) enum KeepError {
    /// The data path failed.
    #[error(transparent)]
    Shaper(#[from] ShaperError),
    /// The socket between the agents cannot be opened.
    #[error("UDP port {port} of {address}, which agents use for guarantees: {source}")]
    Socket {
        /// The host's own address.
        address: IpAddr,
        /// The port above the data port.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
}

/// Keeps the guarantees of one host until it is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) duty: Duty,
    /// The keys of the other hosts' agents, by the hosts' positions.
    pub(super) keys: BTreeMap<u16, TalkKey>,
    pub(super) shaper: Shaper,
    pub(super) wire: Wire,
    pub(super) sources: Partitioner<IpAddr>,
    pub(super) targets: Partitioner<IpAddr>,
    arrivals: Arrivals<IpAddr>,
    /// What waits on all pairs.
    pub(super) common: Common<IpAddr>,
    /// The other hosts, by the address that names them.
    pub(super) others: BTreeMap<IpAddr, Peer>,
    /// Hosts that have an address in common, by that address.
    pub(super) shared: BTreeMap<IpAddr, Vec<IpAddr>>,
    /// Whether the address of a host has changed.
    pub(super) moved: bool,
    pub(super) part: Part,
    rest: Rest,
    pub(super) watch: Watch,
    /// The rates that the host is currently guaranteed to send and receive, in bit/s.
    pub(super) hoses_bps: [Option<f64>; 2],
    begin: Instant,
    pub(super) applied: Instant,
    partition_s: f64,
    busy: bool,
    /// Whether all pairs are near their guarantees or below.
    calm: bool,
    /// The number of active pairs.
    pub(super) active_pairs: usize,
    /// What waits in the host's sockets.
    pub(super) sockets: Sockets,
    /// What arrives from hosts that are not in the set.
    pub(super) unlisted: Unlisted,
    pub(super) number: u64,
    pub(super) control_bytes: u64,
}

impl Keeper {
    /// Takes control of the host's interface. Call it in the thread that uses the keeper afterwards.
    pub(super) fn new(duty: Duty) -> Result<Self, KeepError> {
        let (own, shaper) = install(&duty)?;
        let wire = Wire::open(own).map_err(|source| KeepError::Socket {
            address: own.ip(),
            port: own.port(),
            source,
        })?;
        shaper.exempt(&wire.fd())?;
        let mut keeper = Self {
            keys: keys(&duty),
            shaper,
            wire,
            sources: Partitioner::new(End::Target, hose(duty.own.ingress_bps), &duty.parameters.partition),
            targets: Partitioner::new(End::Source, hose(duty.own.egress_bps), &duty.parameters.partition),
            arrivals: Arrivals::new(),
            common: Common::default(),
            others: BTreeMap::new(),
            shared: BTreeMap::new(),
            moved: false,
            part: Part::default(),
            rest: Rest::default(),
            watch: Watch::default(),
            hoses_bps: [duty.own.egress_bps, duty.own.ingress_bps],
            begin: Instant::now(),
            applied: Instant::now(),
            partition_s: 0.0,
            busy: false,
            calm: false,
            active_pairs: 0,
            sockets: Sockets::open(),
            unlisted: Unlisted::default(),
            number: first_number(),
            control_bytes: 0,
            duty,
        };
        keeper.meet()?;
        Ok(keeper)
    }

    /// Replaces the guarantees. Pairs that remain keep their state.
    pub(super) fn change(&mut self, duty: Duty) -> Result<(), KeepError> {
        let now_s = self.now_s();
        let fixed = |duty: &Duty| {
            (
                duty.own.place,
                duty.own.further.clone(),
                duty.inside.clone(),
                duty.remains,
            )
        };
        if fixed(&duty) != fixed(&self.duty) {
            // The interface or the sweeping child changes: the caller must first release this keeper's claim.
            return Err(KeepError::Shaper(ShaperError::Claimed));
        }
        self.watch.last = self.watch.repair(&mut self.shaper)?;
        self.shaper.set_ect(duty.ecn());
        if duty.parameters != self.duty.parameters {
            let rules = &duty.parameters.partition;
            self.sources = Partitioner::new(End::Target, hose(duty.own.ingress_bps), rules);
            self.targets = Partitioner::new(End::Source, hose(duty.own.egress_bps), rules);
            for other in self.others.values_mut() {
                other.out.allocator = None;
            }
        }
        let gone: Vec<_> = self
            .others
            .keys()
            .filter(|peer| !duty.peers.contains_key(*peer))
            .copied()
            .collect();
        for peer in gone {
            self.shaper.idle(peer)?;
            self.targets.forget(peer);
            self.sources.forget(peer);
            self.others.remove(&peer);
        }
        for (peer, other) in &mut self.others {
            if self.duty.peers.get(peer).map(|hose| hose.place) != duty.peers.get(peer).map(|hose| hose.place) {
                other.forget_origin();
            }
        }
        self.keys = keys(&duty);
        for (peer, other) in &mut self.others {
            if self.duty.peers.get(peer).map(|hose| hose.key) != duty.peers.get(peer).map(|hose| hose.key) {
                other.numbers.renew();
            }
        }
        self.duty = duty;
        self.applied = Instant::now();
        for (peer, other) in &mut self.others {
            if let Some(allocator) = &mut other.out.allocator {
                allocator.set_ceiling(ceiling(&self.duty, &self.duty.peers[peer]));
            }
        }
        self.meet()?;
        self.set_hoses(now_s)?;
        self.partition(now_s);
        Ok(())
    }

    /// Sets the host's current guarantees, its own and its part of the tenant's.
    fn set_hoses(&mut self, now_s: f64) -> Result<(), KeepError> {
        self.hoses_bps = self.part.hoses_bps(&self.duty, now_s);
        let [egress_bps, ingress_bps] = self.hoses_bps;
        if ingress_bps.is_none() {
            self.sources.set_hose(hose(None));
        }
        self.targets.set_hose(hose(egress_bps));
        let Setup {
            limit_bps,
            newcomers_bps,
            ..
        } = setup(&self.duty, self.duty.own.address, egress_bps);
        Ok(self.shaper.limit(limit_bps, newcomers_bps)?)
    }

    /// Prepares the state of all peers.
    fn meet(&mut self) -> Result<(), KeepError> {
        let mut fixed = Vec::new();
        for (peer, hose) in &self.duty.peers {
            self.others.entry(*peer).or_default();
            let bps = self.duty.fixed_bps(hose);
            if bps.is_finite() {
                fixed.push(PairRate {
                    target: *peer,
                    rate_bps: bps,
                    ceil_bps: bps,
                });
            }
        }
        self.sort_addresses()?;
        // Without BPF no program counts the active pairs, so every pair gets a static reservation.
        if self.shaper.without_bpf().is_some() {
            self.shaper.set(&fixed)?;
        }
        Ok(())
    }

    /// Assigns each address to the host whose packets have it. Hosts with an address in common cannot be distinguished:
    /// what arrives from them counts for none, and they get a fixed part of the hose.
    fn sort_addresses(&mut self) -> Result<(), KeepError> {
        let mut owners: BTreeMap<IpAddr, Vec<IpAddr>> = BTreeMap::new();
        for (peer, hose) in &self.duty.peers {
            for address in self.others[peer].addresses(hose) {
                owners.entry(address).or_default().push(*peer);
            }
        }
        for (peer, hose) in &self.duty.peers {
            let Some(other) = self.others.get_mut(peer) else {
                continue;
            };
            let (mut own, mut mixed) = (other.addresses(hose), Vec::new());
            own.retain(|address| {
                let others = owners[address].iter().filter(|owner| *owner != peer);
                let before = mixed.len();
                mixed.extend(others);
                mixed.len() == before
            });
            if self.shaper.reach(*peer, &own)? || mixed.is_empty() != other.mixed.is_empty() {
                self.shaper.renumber(*peer);
                other.incoming.renumber();
                self.sources.forget(*peer);
            }
            other.mixed = mixed;
        }
        owners.retain(|_, peers| peers.len() > 1);
        if owners != self.shared {
            let addresses: Vec<_> = owners.keys().copied().collect();
            self.shaper.reach(MIXED, &addresses)?;
            self.shared = owners;
        }
        self.moved = false;
        Ok(())
    }

    /// The offer to each host that cannot be distinguished from another one: its equal part of the hose.
    fn fixed_offer(&self) -> Option<Offer> {
        let bps = self.hoses_bps[1]? / self.others.len().max(1) as f64;
        Some(Offer {
            share_bps: bps,
            offer_bps: bps,
        })
    }

    pub(super) fn now_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// The shortest time between two calls of [`Self::step`]. While all pairs are calm, what their receivers report
    /// changes little, so the datagrams of a longer time are handled together. With many pairs, too: each call looks at
    /// all of them.
    pub(super) fn period(&self) -> Duration {
        if self.calm {
            return self.rest();
        }
        let usual = Seconds(self.duty.parameters.allocation.period_s);
        let Seconds(period_s) = Reports::look(self.active_pairs, usual);
        Duration::from_secs_f64(period_s.clamp(0.001, 1.0))
    }

    /// The longest time between two calls of [`Self::step`] while no datagram arrives.
    pub(super) fn rest(&self) -> Duration {
        let period_s = self.duty.parameters.partition.period_s;
        let rest_s = if self.busy { period_s.min(BUSY_S) } else { period_s };
        Duration::from_secs_f64(rest_s.clamp(0.001, 1.0))
    }

    /// Leaves the guarantees as static limits when it is dropped.
    pub(super) fn leave(&mut self) {
        self.shaper.leave();
    }

    /// Waits until `until`, until the bell rings or, with `hear`, until a datagram arrives or another program changes the
    /// interface. Returns whether the bell rang.
    pub(super) fn wait(&self, bell: &PipeReader, until: Instant, hear: bool) -> bool {
        let ready = |events| PollFd::new(events, PollFlags::POLLIN);
        let mut all = [ready(bell.as_fd()), ready(self.shaper.changes()), ready(self.wire.fd())];
        let left = until.saturating_duration_since(Instant::now());
        // Round up: a wait that ends too early would start again and again.
        let left_ms = left.as_micros().div_ceil(1000) as u16;
        if left_ms == 0 {
            return false;
        }
        let _ = poll(&mut all[..if hear { 3 } else { 1 }], PollTimeout::from(left_ms));
        let rang = all[0].any() == Some(true);
        if rang {
            let _ = (&*bell).read(&mut [0; 16]);
        }
        rang
    }

    /// Runs one period.
    pub(super) fn step(&mut self) -> Result<(), KeepError> {
        let now_s = self.now_s();
        self.busy = false;
        self.watch.look(now_s, &mut self.shaper)?;
        self.hear(now_s);
        if self.moved {
            self.sort_addresses()?;
        }
        self.count_arrivals(now_s);
        self.count_sent(now_s);
        if now_s - self.partition_s >= self.duty.parameters.partition.period_s * 0.9 {
            self.set_hoses(now_s)?;
            self.partition(now_s);
            self.limit_rest()?;
            self.phantom();
            self.forget_idle(now_s)?;
            self.judge(now_s);
            let (others, shaper) = (&self.others, &self.shaper);
            let all_bytes = |received: Received| received.bytes + received.control_bytes;
            let listed = || others.keys().map(|peer| all_bytes(shaper.received(*peer))).sum();
            self.unlisted.count(now_s, shaper.device(), listed);
        }
        self.set_rates(now_s)?;
        self.say(now_s);
        self.calm = self.others.values().all(|other| other.calm);
        Ok(())
    }

    /// Reads what has arrived, and charges losses to pairs.
    fn count_arrivals(&mut self, now_s: f64) {
        let common = self.common.marked(Seconds(now_s));
        let (ecn, waits) = (self.duty.ecn(), self.duty.waits());
        let most_s = self.duty.parameters.delayed.delay_most_s;
        for (peer, other) in &mut self.others {
            let received = self.shaper.received(*peer);
            let waited = other.incoming.waited(now_s, most_s).max(common);
            let counts = other.incoming.count(now_s, received, ecn, waits, waited);
            if !other.mixed.is_empty() {
                continue;
            }
            if counts.bytes > 0.0 || counts.lost_bytes > 0.0 {
                self.busy |= counts.bytes > BUSY_BYTES;
                self.part.count(1, counts.bytes as u64);
                self.sources
                    .observe(*peer, Bytes(counts.bytes as u64), Bandwidth::UNLIMITED);
                self.arrivals.note(*peer, counts);
                other.incoming.guarantee_bps = self.sources.guarantee_bps(*peer, Seconds(now_s)).unwrap_or(0.0);
            }
        }
        let pooled = self.duty.parameters.allocation.pooled_loss;
        for (peer, counts) in self.arrivals.report(pooled) {
            if let Some(other) = self.others.get_mut(&peer) {
                other.incoming.charge(&counts);
            }
        }
    }

    /// Reads what was sent. A pair that starts to send gets an allocator.
    fn count_sent(&mut self, now_s: f64) {
        let Some(hose_bps) = self.hoses_bps[0] else {
            return;
        };
        self.rest.count(self.shaper.rest_bytes(), hose_bps, &mut self.targets);
        for (peer, other) in &mut self.others {
            let (bytes, active) = other.out.count(now_s, self.shaper.sent(*peer));
            if active {
                self.part.count(0, bytes);
                let silence_s = self.duty.parameters.allocation.silence_s;
                if other.out.active_s.is_none_or(|active_s| now_s - active_s > silence_s) {
                    // After a pause the network's state is unknown.
                    other.out.allocator = None;
                }
                let limit_bps = other.out.allocator.as_ref().map(|own| own.limit_bps(Seconds(now_s)));
                self.targets
                    .observe(*peer, Bytes(bytes), Bandwidth(limit_bps.unwrap_or(hose_bps)));
                other.out.active_s = Some(now_s);
                if limit_bps.is_none() {
                    let rules = &self.duty.parameters;
                    let start = Bandwidth(rules.allocation.start * hose_bps);
                    let guarantee_bps = self.targets.guarantee_bps(*peer, Seconds(now_s)).unwrap_or(0.0);
                    let most = ceiling(&self.duty, &self.duty.peers[peer]);
                    other.out.guarantee_bps = guarantee_bps;
                    let fresh =
                        Allocator::new(Seconds(now_s), Bandwidth(guarantee_bps), start, most, &rules.allocation);
                    other.out.allocator = Some(fresh.without_marks(&rules.delayed, &rules.unmarked));
                }
            }
        }
    }

    /// Divides both hoses again.
    fn partition(&mut self, now_s: f64) {
        self.partition_s = now_s;
        self.remember(now_s);
        for other in self.others.values_mut() {
            (other.out.offer, other.incoming.offer) = (None, None);
        }
        self.rest.begin();
        if self.hoses_bps[0].is_some() {
            for share in self.targets.partition(Seconds(now_s)) {
                if self.rest.take(&share) {
                    continue;
                }
                if let Some(other) = self.others.get_mut(&share.peer) {
                    other.out.offer = Some(share.offer());
                    other.out.guarantee_bps = share.guarantee_bps;
                }
            }
        }
        if let Some(hose_bps) = self.hoses_bps[1] {
            let fixed = self.fixed_offer();
            let mut left_bps = hose_bps;
            for other in self.others.values_mut().filter(|other| !other.mixed.is_empty()) {
                other.incoming.offer = fixed;
                left_bps -= fixed.map_or(0.0, |offer| offer.share_bps);
            }
            self.sources.set_hose(Bandwidth(left_bps));
            for share in self.sources.partition(Seconds(now_s)) {
                if let Some(other) = self.others.get_mut(&share.peer) {
                    other.incoming.offer = Some(share.offer());
                    other.incoming.guarantee_bps = share.guarantee_bps;
                }
            }
        }
    }

    /// Limits what leaves in no pair.
    fn limit_rest(&mut self) -> Result<(), KeepError> {
        let most_bps = self.duty.own.egress_limit_bps.unwrap_or(UNLIMITED_BPS as f64);
        let bps = self.rest.limit_bps(self.hoses_bps[0], most_bps);
        Ok(self.shaper.limit_rest(bps as u64)?)
    }

    /// Sets the edge's phantom queue. The rate to stay below is known only if the host has a maximum.
    fn phantom(&mut self) {
        let drain_bps = self.duty.own.ingress_limit_bps.unwrap_or(0.0) * self.duty.parameters.phantom_drain;
        let active = self
            .others
            .values()
            .filter(|other| other.incoming.offer.is_some())
            .count() as u64;
        self.shaper
            .phantom(drain_bps as u64, THRESHOLD_BYTES + THRESHOLD_PAIR_BYTES * active);
    }

    /// Removes pairs that have been idle for a while.
    fn forget_idle(&mut self, now_s: f64) -> Result<(), KeepError> {
        for (peer, other) in &mut self.others {
            if other.out.active_s.is_some_and(|active_s| now_s - active_s > LINGER_S) {
                (other.out.active_s, other.out.allocator) = (None, None);
                self.shaper.idle(*peer)?;
            }
        }
        Ok(())
    }

    /// Judges the windows of pairs that depend on what waits in sockets.
    fn judge(&mut self, now_s: f64) {
        if !self.others.values().any(|other| other.out.asks()) {
            return;
        }
        let targets = self.sockets.targets(now_s);
        for (peer, other) in &mut self.others {
            match &targets {
                Some(targets) => {
                    let addresses = other.addresses(&self.duty.peers[peer]);
                    let waits = addresses.iter().any(|address| targets.contains(address));
                    other.out.answer(now_s, waits);
                }
                None => other.out.skip(),
            }
        }
    }

    fn set_rates(&mut self, now_s: f64) -> Result<(), KeepError> {
        let duty = &self.duty;
        let rates: Vec<_> = self
            .others
            .iter()
            .filter_map(|(peer, other)| {
                let out = &other.out;
                let allocator = out.allocator.as_ref()?;
                let ceil_bps = out.limit_bps(duty, allocator, now_s);
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
}

/// Takes control of the interface with the first of the host's own addresses that one has. Returns the address, too.
fn install(duty: &Duty) -> Result<(SocketAddr, Shaper), KeepError> {
    let own = &duty.own;
    let mut lacking = None;
    for address in std::iter::once(own.place.ip()).chain(own.further.iter().copied()) {
        match Shaper::install(setup(duty, address, own.egress_bps)) {
            Ok(mut shaper) => {
                let mut all = own.further.clone();
                all.push(own.place.ip());
                shaper.known_as(&all);
                // A link-local address keeps its zone, without which no socket can be bound to it.
                let mut place = own.place;
                if place.ip() != address {
                    place = SocketAddr::new(address, place.port());
                }
                return Ok((place, shaper));
            }
            Err(error @ ShaperError::Device(_)) => lacking = lacking.or(Some(error)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(lacking.unwrap_or(ShaperError::Claimed).into())
}

/// The keys of the other hosts' agents, by the hosts' positions.
fn keys(duty: &Duty) -> BTreeMap<u16, TalkKey> {
    let hoses = duty.peers.values();
    hoses
        .map(|hose| (hose.position, TalkKey::derive(&hose.key.0)))
        .collect()
}

/// The limiter's value of a hose; a hose that is not set limits nothing.
fn hose(bps: Option<f64>) -> Bandwidth {
    Bandwidth(bps.unwrap_or(UNLIMITED_BPS as f64))
}

/// The highest rate of a pair.
fn ceiling(duty: &Duty, target: &Hose) -> Bandwidth {
    let own = duty.own.egress_limit_bps.unwrap_or(f64::INFINITY);
    Bandwidth(own.min(target.ingress_limit_bps.unwrap_or(f64::INFINITY)))
}

fn setup(duty: &Duty, address: IpAddr, egress_bps: Option<f64>) -> Setup {
    let limit_bps = duty.own.egress_limit_bps.map_or(UNLIMITED_BPS, |bps| bps as u64);
    Setup {
        address,
        limit_bps,
        newcomers_bps: egress_bps.map_or(limit_bps, |bps| bps as u64),
        ect: duty.ecn(),
        bpf: true,
    }
}
