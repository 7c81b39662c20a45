//! Reports the state of one host's guarantees.

use std::net::IpAddr;
use std::time::Duration;

use gavotte_shaper::UNLIMITED_BPS;
use nix::time::{ClockId, clock_gettime};
use tracing::warn;

use crate::contract::agents::{GuardedPair, GuardedReply, MixedHosts};
use crate::guarantee::keeping::Keeper;

impl Keeper {
    /// The full state for a controller. Call it in the keeper's thread.
    pub(super) fn status(&self) -> GuardedReply {
        let now_s = self.now_s();
        let mut pairs = Vec::new();
        let mut silent = Vec::new();
        for (peer, other) in &self.others {
            let hose = &self.duty.peers[peer];
            if !other.out.was_active() {
                continue;
            }
            let allocator = other.out.allocator.as_ref();
            let limit_bps = allocator.map_or(0.0, |own| other.out.limit_bps(&self.duty, own, now_s));
            pairs.push(GuardedPair {
                source: self.duty.own.name.clone(),
                target: hose.name.clone(),
                ..other.out.status(now_s, limit_bps.min(UNLIMITED_BPS as f64))
            });
            let silence_s = self.duty.parameters.allocation.silence_s;
            if other.out.is_active(now_s)
                && other
                    .heard_s
                    .is_none_or(|heard_s| now_s - heard_s > silence_s.max(other.patience_s))
            {
                silent.push(hose.name.clone());
            }
        }
        let cpu = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
        let [egress_bps, ingress_bps] = self.hoses_bps.map(|bps| bps.unwrap_or(0.0));
        GuardedReply {
            guarded: true,
            self_: self.duty.own.name.clone(),
            device: self.shaper.device().to_owned(),
            without_bpf: self.shaper.without_bpf().unwrap_or_default().to_owned(),
            age_s: self.applied.elapsed().as_secs_f64(),
            pairs,
            silent,
            cpu_s: cpu.as_secs_f64(),
            control_bytes: self.control_bytes,
            egress_bps,
            ingress_bps,
            mixed: self.mixed(),
            unlisted_bps: self.unlisted.rate_bps(),
            repairs: self.watch.repairs(),
            error: self.watch.error(),
            ..GuardedReply::default()
        }
    }

    /// The hosts that cannot be distinguished, by the address that they share.
    fn mixed(&self) -> Vec<MixedHosts> {
        let name = |peer: &IpAddr| Some(self.duty.peers.get(peer)?.name.clone());
        let entry = |(address, peers): (&IpAddr, &Vec<IpAddr>)| MixedHosts {
            address: address.to_string(),
            hosts: peers.iter().filter_map(name).collect(),
        };
        self.shared.iter().map(entry).collect()
    }

    /// The interface, and the reason if it works without BPF.
    pub(super) fn device(&self) -> (String, String) {
        let without = self.shaper.without_bpf().unwrap_or_default();
        if !without.is_empty() {
            warn!(without, "static guarantees only");
        }
        (self.shaper.device().to_owned(), without.to_owned())
    }
}
