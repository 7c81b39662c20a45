//! The interface of a platform: links with rates, and the paths between hosts.

use gavotte_net::{BitsPerSec, Bucket};

/// Number of a directed link of a [`Platform`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Hosts, links, and the path from each host to each other.
///
/// Links exist because a route names them, so a platform may have far more links than any workload uses.
pub trait Platform: Sync {
    /// The number of hosts, which are numbered from zero.
    fn host_count(&self) -> usize;

    /// Appends the links from `source` to `target` to `path`, each of them once.
    ///
    /// A path from a host to itself has no links. `label` distinguishes the flows of a pair if several paths are equal.
    fn route(&self, source: usize, target: usize, label: u64, path: &mut Vec<LinkId>);

    /// The rate of a link.
    fn rate(&self, link: LinkId) -> BitsPerSec;

    /// Time from the start of a flow until its first byte arrives, in seconds.
    fn latency_s(&self, source: usize, target: usize) -> f64;

    /// The token buckets on the way from `source` to `target`: that of what the sender sends, and that of what the
    /// receiver gets. `None` = none is known. [`crate::Wire`] leaves them to its caller.
    fn buckets(&self, _source: usize, _target: usize) -> Option<[Bucket; 2]> {
        None
    }

    /// Appends the links between the hosts' own ones, which their token buckets do not pass: those of groups.
    fn route_between(&self, _source: usize, _target: usize, _path: &mut Vec<LinkId>) {}

    /// The readable name of a link, such as "up link of tor0".
    fn link_name(&self, link: LinkId) -> String;
}
