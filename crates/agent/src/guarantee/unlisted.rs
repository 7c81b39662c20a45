//! Traffic of hosts that are not in the set of guarantees. No agent limits it, so that it voids guarantees.

use std::fs;

/// Time over which the rate is measured, in seconds.
const PERIOD_S: f64 = 2.0;

/// What arrives at the host's interface from other hosts than those of the set.
#[derive(Debug, Default)]
pub(super) struct Unlisted {
    /// When it was counted last, the interface's bytes, and those of the set's hosts.
    before: Option<(f64, u64, u64)>,
    rate_bps: f64,
}

impl Unlisted {
    /// Reads the interface's counter if a period is over; `listed_bytes` returns what has arrived from hosts of the set.
    pub(super) fn count(&mut self, now_s: f64, device: &str, listed_bytes: impl FnOnce() -> u64) {
        if self.before.is_some_and(|(at_s, ..)| now_s - at_s < PERIOD_S) {
            return;
        }
        // The thread may be in the network of a container.
        let Some(all_bytes) = fs::read_to_string("/proc/thread-self/net/dev")
            .ok()
            .and_then(|text| received(&text, device))
        else {
            return;
        };
        let listed_bytes = listed_bytes();
        if let Some((at_s, all_before, listed_before)) = self.before.replace((now_s, all_bytes, listed_bytes)) {
            let all = all_bytes.saturating_sub(all_before);
            let listed = listed_bytes.saturating_sub(listed_before);
            self.rate_bps = 8.0 * all.saturating_sub(listed) as f64 / (now_s - at_s);
        }
    }

    /// The rate in bit/s.
    pub(super) fn rate_bps(&self) -> f64 {
        self.rate_bps
    }
}

/// The bytes that an interface has received, from the text of `/proc/net/dev`.
fn received(text: &str, device: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_found_by_its_whole_name() {
        let text = "Inter-|   Receive |\n face |bytes packets|\n  eth01: 7 1 0\n   eth0:123456 9 0\n    lo: 5 0\n";
        assert_eq!(received(text, "eth0"), Some(123_456));
        assert_eq!(received(text, "lo"), Some(5));
        assert_eq!(received(text, "eth"), None);
        assert_eq!(received("x", "eth0"), None);
    }
}
