//! What flows run over: links with rates, and the links between each two hosts.

use gavotte_net::BitsPerSec;

/// Number of a directed link of a [`Platform`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Hosts, links, and the way from each host to each other.
///
/// Links exist by being named in a route, so a platform may have far more than any workload uses.
pub trait Platform: Sync {
    /// How many hosts there are; they are numbered from zero.
    fn host_count(&self) -> usize;

    /// Appends the links from `source` to `target` to `path`, none of them twice.
    ///
    /// Between a host and itself there is none. `label` tells the flows of a pair apart where several paths are equal.
    fn route(&self, source: usize, target: usize, label: u64, path: &mut Vec<LinkId>);

    /// The rate of a link.
    fn rate(&self, link: LinkId) -> BitsPerSec;

    /// Time from the start of a flow until its first byte arrives, in seconds.
    fn latency_s(&self, source: usize, target: usize) -> f64;

    /// The link in words, such as "up link of tor0".
    fn link_name(&self, link: LinkId) -> String;
}
