//! The agents' periodic turns.

use gavotte_limiter::{Counts, End, Feedback, Reports, Unreported};
use gavotte_net::{Bandwidth, Bytes, Seconds, Volume};

use super::super::hosts::{Hose, share_tenants};
use super::super::pair::ActivePair;
use super::super::protection::Method;
use super::Run;

/// Length of an agent's datagram with all its headers.
const REPORT_BYTES: u64 = 113;

/// Whether an agent reports these counts of a pair now; if so, it is recorded.
fn is_due(reports: &mut Reports, now: Seconds, counts: Counts, guarantee: Bandwidth, pairs: usize) -> bool {
    let calm = reports.is_calm(now, Volume(counts.bytes), guarantee);
    let unreported = Unreported {
        counts,
        is_active: true,
        ..Unreported::default()
    };
    // Offers arrive at once, so they need no reports.
    let rarity = calm.then(|| Reports::rarity(pairs, Seconds(0.0)));
    reports.due(now, &unreported, REPORT_BYTES, rarity, |_, _| false)
}

impl ActivePair {
    /// Sends a datagram of the sending agent if one is due. It waits in the same queues as all packets.
    fn time(&mut self, now_s: f64) {
        self.untimed.bytes += self.sent_bytes;
        let guarantee = Bandwidth(self.guarantee_bps);
        if is_due(
            &mut self.timed,
            Seconds(now_s),
            self.untimed,
            guarantee,
            self.host_pairs,
        ) {
            self.untimed = Counts::default();
            self.datagrams.push_back((now_s + self.waits_s, self.waits_s));
        }
    }

    /// Receives the datagrams that have arrived. Returns whether there were any.
    fn hear(&mut self, now_s: f64) -> bool {
        let before = self.datagrams.len();
        while let Some(&(at_s, waited_s)) = self.datagrams.front()
            && at_s <= now_s
        {
            self.datagrams.pop_front();
            self.delay.note(Seconds(at_s), Seconds(waited_s));
        }
        self.datagrams.len() < before
    }
}

impl Run<'_> {
    /// Lets each agent whose turn is due count, report, divide and allocate.
    pub(super) fn take_turns(&mut self) {
        let now_s = self.now_s;
        let parameters = &self.guarding.parameters;
        let due = self.agents.iter().filter(|(_, agent)| agent.next_s <= now_s);
        let hosts: Vec<usize> = due.map(|(&host, _)| host).collect();
        self.count_pairs();
        for host in hosts {
            self.report(host);
            self.divide(host);
            self.allocate(host);
        }
        if self.tenants_s <= now_s && !self.agents.is_empty() && !self.guarding.tenants.is_empty() {
            let elapsed_s = now_s - self.tenants_s + parameters.partition.period_s;
            self.tenants_s = now_s + parameters.partition.period_s;
            share_tenants(
                self.guarding.tenants,
                self.guarding.hoses,
                &mut self.agents,
                Seconds(elapsed_s),
                parameters,
            );
        }
    }

    /// Counts the pairs of hosts, on which it depends how rarely agents report on each.
    fn count_pairs(&mut self) {
        if !self.guarding.adapts {
            return;
        }
        let counts = &mut self.active_pairs;
        counts.fill(0);
        for &place in &self.active {
            let pair = &self.pairs[place];
            counts[pair.source] += 1;
            counts[pair.target] += 1;
        }
        for &place in &self.active {
            let pair = &mut self.pairs[place];
            pair.host_pairs = counts[pair.source].max(counts[pair.target]);
        }
    }

    /// Counts a host's traffic, and sends reports to its sources.
    fn report(&mut self, host: usize) {
        let (now_s, rules) = (self.now_s, &self.guarding.parameters.allocation);
        let agent = self.agents.get_mut(&host).expect("it has a turn");
        let (now, most) = (Seconds(now_s), Seconds(rules.delay_most_s));
        for &place in &self.into[host] {
            let pair = &mut self.pairs[place];
            if pair.hear(now_s) {
                agent.common.note(now, place, pair.delay.marked(now, most));
            }
        }
        let common = agent.common.marked(now);
        for &place in &self.into[host] {
            let pair = &mut self.pairs[place];
            let mut counts = std::mem::take(&mut pair.counts);
            if counts.bytes + counts.lost_bytes > 0.0 {
                counts.waited_bytes = pair.delay.marked(now, most).max(common) * counts.bytes;
                agent.arrivals.note(place, counts);
                agent
                    .receiving
                    .observe(pair.source, Bytes(counts.bytes as u64), Bandwidth::UNLIMITED);
                agent.received_bytes += counts.bytes;
            }
        }
        for &place in &self.out[host] {
            let pair = &mut self.pairs[place];
            if pair.sent_bytes > 0.0 {
                pair.time(now_s);
                agent
                    .sending
                    .observe(pair.target, Bytes(pair.sent_bytes as u64), Bandwidth(pair.limit * 8.0));
                agent.sent_bytes += pair.sent_bytes;
            }
        }
        for (place, counts) in agent.arrivals.report(rules.pooled_loss) {
            let unreported = &mut self.pairs[place].unreported;
            unreported.bytes += counts.bytes;
            unreported.lost_bytes += counts.lost_bytes;
            unreported.marked_bytes += counts.marked_bytes;
            unreported.waited_bytes += counts.waited_bytes;
        }
    }

    /// Sets the limits of the pairs on which a host sends.
    fn allocate(&mut self, host: usize) {
        let (now_s, rules, method) = (self.now_s, &self.guarding.parameters.allocation, self.guarding.method);
        let agent = self.agents.get_mut(&host).expect("it has a turn");
        let Seconds(look_s) = Reports::look(self.active_pairs[host], Seconds(rules.period_s));
        agent.next_s = (agent.next_s + look_s).max(now_s);
        for &place in &self.out[host] {
            let pair = &mut self.pairs[place];
            pair.unreported_bytes += std::mem::take(&mut pair.sent_bytes);
            let Some(allocator) = &mut pair.allocator else {
                continue;
            };
            let guarantee_bps = agent
                .sending
                .guarantee_bps(pair.target, Seconds(now_s))
                .unwrap_or(pair.guarantee_bps);
            if method != Method::Seawall {
                pair.guarantee_bps = guarantee_bps;
            }
            let since_s = now_s - pair.reported.last().0.max(0.0);
            let (counts, guarantee) = (pair.unreported, Bandwidth(pair.guarantee_bps));
            if !is_due(&mut pair.reported, Seconds(now_s), counts, guarantee, pair.host_pairs) {
                // Agents apply a new guarantee before the next report.
                pair.limit = match method {
                    Method::Static => pair.guarantee_bps / 8.0,
                    Method::Guarantees => allocator.limit_bps(Seconds(now_s)).max(pair.guarantee_bps) / 8.0,
                    Method::None | Method::Seawall => pair.limit,
                };
                continue;
            }
            pair.unreported = Counts::default();
            let bytes = std::mem::take(&mut pair.unreported_bytes);
            let feedback = Feedback {
                rate_bps: bytes * 8.0 / since_s.max(self.guarding.step_s),
                lost_bytes: counts.lost_bytes,
                marked_bytes: counts.marked_bytes,
                waited_bytes: counts.waited_bytes,
                bytes: counts.bytes,
                arrived_bps: counts.bytes * 8.0 / since_s.max(self.guarding.step_s),
            };
            let limit_bps = allocator.feedback(Seconds(now_s), &feedback, Bandwidth(pair.guarantee_bps));
            pair.limit = if method == Method::Static {
                allocator.fallback_bps()
            } else {
                limit_bps
            } / 8.0;
            pair.used.held = Some(allocator.held(Seconds(now_s)));
        }
    }

    /// Divides both hoses of a host and sends offers to the other ends.
    fn divide(&mut self, host: usize) {
        let now_s = self.now_s;
        let agent = self.agents.get_mut(&host).expect("it has a turn");
        let Hose {
            egress_bps,
            ingress_bps,
            ..
        } = self.guarding.hoses[host];
        if egress_bps > 0.0 && agent.sending.is_due(Seconds(now_s)) {
            for share in agent.sending.partition(Seconds(now_s)) {
                if self.guarding.method == Method::Seawall {
                    let own = self.out[host]
                        .iter()
                        .find(|&&place| self.pairs[place].target == share.peer);
                    if let Some(&place) = own {
                        self.pairs[place].guarantee_bps = share.share_bps;
                    }
                }
                self.offers.push((share.peer, End::Target, host, share.offer()));
            }
        }
        if ingress_bps > 0.0 && agent.receiving.is_due(Seconds(now_s)) {
            let shares = agent.receiving.partition(Seconds(now_s));
            self.offers.extend(
                shares
                    .iter()
                    .map(|share| (share.peer, End::Source, host, share.offer())),
            );
        }
        for (peer, end, from, offer) in self.offers.drain(..) {
            if let Some(agent) = self.agents.get_mut(&peer) {
                let hearing = match end {
                    End::Source => &mut agent.sending,
                    End::Target => &mut agent.receiving,
                };
                hearing.hear(from, Seconds(now_s), offer);
            }
        }
    }
}
