//! One other host: where it is, and which reports to it are due.

use std::net::{IpAddr, SocketAddr};

use gavotte_limiter::{Counts, Offer, Reports, Unreported};
use gavotte_net::{Bandwidth, Seconds, Volume};

use crate::guarantee::duty::Hose;
use crate::guarantee::incoming::Incoming;
use crate::guarantee::outgoing::Outgoing;
use crate::guarantee::talk::{BYTES, Numbers};

/// Length of Ethernet's header and of UDP's.
const ETHERNET_UDP_BYTES: u64 = 14 + 8;
/// A host counts as lost after this many times the time in which it would have sent a datagram.
const PATIENCE: f64 = 2.5;
/// An offer counts up to this share above the other end's own, since the lower of the two decides.
const ABOVE_OTHER: f64 = 0.05;
/// A NAT lets datagrams in for this long after a host behind it has sent one.
const OPEN_S: f64 = 10.0;

/// Bytes that the network adds to a datagram for this address.
pub(super) fn around_bytes(address: IpAddr) -> u64 {
    ETHERNET_UDP_BYTES + if address.is_ipv4() { 20 } else { 40 }
}

/// Another host.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) out: Outgoing,
    pub(super) incoming: Incoming,
    /// The numbers of the host's datagrams.
    pub(super) numbers: Numbers,
    pub(super) heard_s: Option<f64>,
    /// The other host's offers for the traffic to it and from it.
    pub(super) heard: [Option<Offer>; 2],
    /// The silence after which it counts as lost, by its own words.
    pub(super) patience_s: f64,
    reports: Reports,
    /// Whether both pairs were calm at the last look.
    pub(super) calm: bool,
    /// The offers of the last report.
    reported: [Option<Offer>; 2],
    /// Where its datagrams come from, once one has arrived.
    origin: Option<SocketAddr>,
    /// Where its last datagram came from.
    last_origin: Option<IpAddr>,
    /// Hosts whose packets arrive from one of its addresses, too.
    pub(super) mixed: Vec<IpAddr>,
}

impl Peer {
    /// Records where an authenticated datagram came from. Returns whether the host's addresses change. An address that
    /// differs from the one before counts from the second datagram in a row, so that a single datagram that was delayed
    /// or diverted changes nothing.
    pub(super) fn note_origin(&mut self, hose: &Hose, from: SocketAddr) -> bool {
        let again = self.last_origin.replace(from.ip()) == Some(from.ip());
        let known = self.origin.map(|origin| origin.ip());
        if known.is_none() || known == Some(from.ip()) || again {
            self.origin = Some(from);
            return known.unwrap_or(hose.place.ip()) != from.ip();
        }
        false
    }

    /// Forgets where datagrams came from, since the host is now reached at another place.
    pub(super) fn forget_origin(&mut self) {
        (self.origin, self.last_origin) = (None, None);
    }

    /// The addresses that the host's packets come from or go to.
    pub(super) fn addresses(&self, hose: &Hose) -> Vec<IpAddr> {
        let mut all = vec![hose.place.ip()];
        all.extend(
            self.origin
                .map(|origin| origin.ip())
                .filter(|ip| *ip != hose.place.ip()),
        );
        all
    }

    /// Where to send the host's datagrams: through the opening that its own datagrams have made in a NAT, if they come
    /// from another place than the known one.
    pub(super) fn place(&self, hose: &Hose, now_s: f64) -> SocketAddr {
        let recent = self.heard_s.is_some_and(|heard_s| now_s - heard_s <= OPEN_S);
        self.origin.filter(|_| recent).unwrap_or(hose.place)
    }

    /// Records in how many tenths of a second the host's next datagram will come at the latest.
    pub(super) fn note_next(&mut self, tenths: u8) {
        self.patience_s = PATIENCE * 0.1 * f64::from(tenths);
    }

    /// In how many tenths of a second the next datagram to the host will be sent at the latest.
    pub(super) fn next_tenths(&self) -> u8 {
        (10.0 * self.reports.promised().0).round() as u8
    }

    /// Whether neither host has sent the other much more than is guaranteed in the time since the last report. A host
    /// that offers nothing is not limited, so that reports change nothing for it.
    fn is_calm(&self, now: Seconds) -> bool {
        let calm = |bytes: f64, bps: f64| self.reports.is_calm(now, Volume(bytes), Bandwidth(bps));
        let [_, source] = &self.heard;
        let arriving = source.as_ref().is_none_or(|source| {
            let own_bps = self.incoming.offer.map_or(f64::INFINITY, |own| own.share_bps);
            calm(self.incoming.untold.bytes, source.share_bps.min(own_bps))
        });
        arriving && (self.out.allocator.is_none() || calm(self.out.untold_bytes as f64, self.out.guarantee_bps))
    }

    /// Whether a report to the other host is due; if so, it is recorded as sent. `around_bytes` are the headers of its
    /// datagram, and `pairs` is the number of this host's active pairs. With `timed`, a sending source sends datagrams
    /// as often as reports arrive: their transit times reveal queues.
    pub(super) fn is_due(&mut self, now_s: f64, around_bytes: u64, timed: bool, pairs: usize) -> bool {
        let offers = [self.out.offer, self.incoming.offer];
        let (reported, heard) = (self.reported, self.heard);
        let each = || offers.iter().zip(&reported);
        let unreported = Unreported {
            counts: self.incoming.untold,
            sent_bytes: if timed { self.out.untold_bytes as f64 } else { 0.0 },
            is_active: offers.iter().any(Option::is_some),
            begins: each().any(|(now, before)| now.is_some() != before.is_some()),
        };
        let now = Seconds(now_s);
        let other = Seconds(self.patience_s / PATIENCE);
        self.calm = self.is_calm(now);
        let rarity = self.calm.then(|| Reports::rarity(pairs, other));
        let differs = |by: f64, lower: f64| {
            let mut all = each().zip(&heard);
            all.any(|((now, before), heard)| differs(*now, *before, *heard, by, lower))
        };
        let due = self
            .reports
            .due(now, &unreported, BYTES as u64 + around_bytes, rarity, differs);
        if due {
            (self.reported, self.incoming.untold) = (offers, Counts::default());
            self.out.untold_bytes = 0;
        }
        due
    }
}

/// Whether two offers differ by more than a share, or the share of the hose falls by more than `lower`.
fn differs(now: Option<Offer>, before: Option<Offer>, heard: Option<Offer>, by: f64, lower: f64) -> bool {
    let change = |of: fn(&Offer) -> f64, now: &Offer, before: &Offer| {
        let most = heard
            .as_ref()
            .map_or(f64::INFINITY, |heard| (1.0 + ABOVE_OTHER) * of(heard));
        let (now, before) = (of(now).min(most), of(before).min(most));
        (now - before) / before
    };
    match (now, before) {
        (Some(now), Some(before)) => {
            let shares = change(|offer| offer.share_bps, &now, &before);
            let offers = change(|offer| offer.offer_bps, &now, &before);
            shares < -lower || shares > by || offers.abs() > by
        }
        (now, before) => now.is_some() != before.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guarantee::duty::PairKey;

    fn offered(bps: f64) -> Offer {
        Offer {
            share_bps: bps,
            offer_bps: bps,
        }
    }

    fn near_guarantee(guarantee_bps: f64) -> Peer {
        Peer {
            heard: [None, Some(offered(guarantee_bps))],
            ..Peer::default()
        }
    }

    #[test]
    fn a_pair_near_its_guarantee_is_reported_rarely_and_the_report_says_so() {
        // Near its guarantee on a host with many pairs and with few, and far above it.
        for (rate_bps, pairs, least, most, tenths) in [(1e6, 400, 2, 3, 30), (1e6, 5, 12, 40, 4), (4e6, 100, 12, 40, 4)]
        {
            let mut peer = near_guarantee(1e6);
            peer.incoming.offer = Some(offered(1e6));
            let mut reports = 0;
            for step in 1..=200_u32 {
                peer.incoming.charge(&Counts {
                    bytes: rate_bps / 8.0 * 0.03,
                    waited_bytes: 100.0,
                    ..Counts::default()
                });
                reports += u32::from(peer.is_due(0.03 * f64::from(step), 42, true, pairs));
            }
            assert!((least..=most).contains(&reports), "{rate_bps}: {reports} in 6 s");
            assert_eq!(peer.next_tenths(), tenths);
            // The other host waits longer than that before it counts this one as lost.
            let mut other = Peer::default();
            other.note_next(tenths);
            assert!(other.patience_s > 2.0 * 0.1 * f64::from(tenths));
        }
    }

    #[test]
    fn the_first_wait_is_reported_soon() {
        let mut peer = near_guarantee(1e6);
        let waited = Counts {
            bytes: 32_500.0,
            waited_bytes: 32_500.0,
            ..Counts::default()
        };
        let mut due_at = Vec::new();
        for step in 1..=10_u32 {
            let now_s = 0.05 * f64::from(step);
            peer.incoming.charge(&waited);
            if peer.is_due(now_s, 42, true, 1) {
                due_at.push(step);
            }
        }
        assert_eq!(due_at, [1, 5, 9]);
    }

    #[test]
    fn an_offer_above_the_other_ends_is_no_news() {
        let offer = |bps: f64| Some(offered(bps));
        let differ = |now, before, heard| differs(now, before, heard, 0.05, 0.05);
        assert!(differ(offer(45e6), offer(1.2e6), None));
        assert!(!differ(offer(45e6), offer(1.2e6), offer(0.9e6)));
        assert!(differ(offer(45e6), offer(1.2e6), offer(1.5e6)));
        assert!(differ(offer(0.5e6), offer(1.2e6), offer(0.9e6)));
        assert!(differ(offer(45e6), None, offer(0.9e6)));
        assert!(!differ(offer(45e6), offer(44e6), None));
        // Growth of a calm pair's share may wait, a fall may not.
        assert!(!differs(offer(1.1e6), offer(1e6), None, 0.15, 0.05));
        assert!(differs(offer(0.9e6), offer(1e6), None, 0.15, 0.05));
    }

    #[test]
    fn a_datagram_teaches_where_its_host_is() {
        let place = |text: &str| text.parse::<SocketAddr>().unwrap();
        let hose = Hose {
            name: "c".into(),
            address: [10, 0, 0, 3].into(),
            position: 2,
            place: place("192.0.2.7:7412"),
            further: Vec::new(),
            key: PairKey([0; 32]),
            egress_bps: None,
            ingress_bps: None,
            egress_limit_bps: None,
            ingress_limit_bps: None,
        };
        let mut peer = Peer::default();
        assert_eq!(
            (peer.addresses(&hose), peer.place(&hose, 0.0)),
            (vec![hose.place.ip()], hose.place)
        );
        // The first datagram counts at once, and opens the NAT for a while.
        assert!(peer.note_origin(&hose, place("192.0.2.8:999")));
        peer.heard_s = Some(1.0);
        assert_eq!(peer.addresses(&hose).len(), 2);
        assert_eq!(peer.place(&hose, 5.0), place("192.0.2.8:999"));
        assert_eq!(peer.place(&hose, 20.0), hose.place);
        // A single datagram from elsewhere changes nothing; two in a row do.
        assert!(!peer.note_origin(&hose, place("198.51.100.1:5")));
        assert!(!peer.note_origin(&hose, place("192.0.2.8:1000")));
        assert_eq!(peer.place(&hose, 5.0), place("192.0.2.8:1000"));
        assert!(!peer.note_origin(&hose, place("192.0.2.7:7412")));
        assert!(peer.note_origin(&hose, place("192.0.2.7:7412")));
        assert_eq!(peer.addresses(&hose), [hose.place.ip()]);
    }

    #[test]
    fn a_report_is_worth_its_own_headers() {
        let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), "fd00::1".parse().unwrap()];
        for (address, headers_bytes) in addresses.into_iter().zip([42, 62]) {
            assert_eq!(around_bytes(address), headers_bytes);
            let mut peer = Peer::default();
            let arrive = |bytes: u64| Counts {
                bytes: bytes as f64,
                ..Counts::default()
            };
            let worth_bytes = 1000 * (BYTES as u64 + headers_bytes);
            peer.incoming.charge(&arrive(worth_bytes - 1));
            assert!(!peer.is_due(0.06, around_bytes(address), false, 1));
            peer.incoming.charge(&arrive(1));
            assert!(peer.is_due(0.06, around_bytes(address), false, 1));
        }
    }
}
