//! A measured network as a platform: each ordered pair of hosts has its own link.

use gavotte_net::{BitsPerSec, Bucket, Link, Network};

use crate::platform::{LinkId, Platform};

impl Platform for Network {
    fn host_count(&self) -> usize {
        self.hosts().len()
    }

    fn route(&self, source: usize, target: usize, _label: u64, path: &mut Vec<LinkId>) {
        self.for_each_link(source, target, |link| path.push(LinkId(self.link_index(link) as u64)));
    }

    fn rate(&self, link: LinkId) -> BitsPerSec {
        self.rate(self.link(link.0 as usize))
    }

    fn route_between(&self, source: usize, target: usize, path: &mut Vec<LinkId>) {
        self.for_each_link(source, target, |link| {
            if matches!(link, Link::Up(_) | Link::Down(_)) {
                path.push(LinkId(self.link_index(link) as u64));
            }
        });
    }

    /// The latency, or zero if it is unknown.
    fn latency_s(&self, source: usize, target: usize) -> f64 {
        self.latency_s(source, target).unwrap_or(0.0)
    }

    fn buckets(&self, source: usize, target: usize) -> Option<[Bucket; 2]> {
        self.buckets(source, target)
    }

    fn link_name(&self, link: LinkId) -> String {
        self.link_name(self.link(link.0 as usize))
    }
}
