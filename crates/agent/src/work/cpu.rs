//! Measures how busy the host's cores are, and for how long the agent had none. If all cores are busy, a measured rate is
//! the host's, not the path's (`OSMeF`).

use std::fs;

use crate::contract::agents::Withheld;
use crate::work::withheld::{self, Reading};

/// Time that all cores together have spent since the host started, in the kernel's ticks (usually 10 ms).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

/// Measures the busy share of all cores of the host, and the time withheld from the agent, from now on.
#[derive(Clone, Debug)]
pub struct Meter {
    ticks: Option<Ticks>,
    reading: Reading,
}

impl Meter {
    /// Starts a measurement.
    pub fn start() -> Self {
        Self {
            ticks: now(),
            reading: withheld::host().read(),
        }
    }

    /// The time since the start that was withheld from the agent.
    pub fn withheld(&self) -> Withheld {
        self.reading.until(&withheld::host().read())
    }

    /// Busy share since the start, 0 to 1. `None` if the host does not report it, or if no tick has passed. One tick of
    /// one core is the finest step.
    pub fn share(&self) -> Option<f64> {
        share(self.ticks?, now()?)
    }
}

fn now() -> Option<Ticks> {
    ticks(&fs::read_to_string("/proc/stat").ok()?)
}

/// Reads the line for all cores: user, nice, system, idle, iowait, irq, softirq, steal. Guests' time is part of user.
fn ticks(stat: &str) -> Option<Ticks> {
    const IDLE: usize = 3;
    const IOWAIT: usize = 4;
    const STEAL: usize = 7;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let spent: Vec<u64> = line
        .split_ascii_whitespace()
        .take(STEAL + 1)
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    let all = spent.iter().try_fold(0u64, |sum, ticks| sum.checked_add(*ticks))?;
    let waited = spent.get(IDLE)? + spent.get(IOWAIT).unwrap_or(&0);
    Some(Ticks {
        busy: all - waited,
        all,
    })
}

/// Limits the result to between 0 and 1, since the kernel's idle counters may decrease a little.
fn share(before: Ticks, after: Ticks) -> Option<f64> {
    let all = after.all.checked_sub(before.all).filter(|all| *all > 0)?;
    let busy = after.busy.saturating_sub(before.busy);
    Some((busy as f64 / all as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "cpu  100 5 50 800 20 3 7 15 9 1\ncpu0 100 5 50 800 20 3 7 15 9 1\nintr 1 2\n";

    #[test]
    fn busy_is_all_but_idle_and_waiting() {
        assert_eq!(ticks(STAT), Some(Ticks { busy: 180, all: 1000 }));
        assert_eq!(ticks("cpu 1 2 3 4\n"), Some(Ticks { busy: 6, all: 10 }));
        assert_eq!(ticks("cpu 1 2 3\n"), None);
        assert_eq!(ticks("cpu0 1 2 3 4\n"), None);
    }

    #[test]
    fn a_share_needs_time_to_have_passed() {
        let at = |busy, all| Ticks { busy, all };
        assert_eq!(share(at(10, 100), at(60, 200)), Some(0.5));
        assert_eq!(share(at(10, 100), at(10, 100)), None);
        assert_eq!(share(at(10, 100), at(5, 90)), None);
        assert_eq!(share(at(10, 100), at(5, 110)), Some(0.0));
    }

    #[test]
    fn this_host_tells() {
        let meter = Meter::start();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(meter.share().is_some_and(|share| (0.0..=1.0).contains(&share)));
    }

    proptest! {
        #[test]
        fn any_text_is_safe(text in "(cpu )?[ 0-9a-z\\n]{0,200}") {
            let _ = ticks(&text);
        }

        #[test]
        fn any_numbers_give_a_share(numbers in prop::collection::vec(any::<u64>(), 0..12)) {
            let words: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            if let Some(ticks) = ticks(&format!("cpu  {}\n", words.join(" "))) {
                prop_assert!(ticks.busy <= ticks.all);
                let none = Ticks { busy: 0, all: 0 };
                prop_assert!(share(none, ticks).is_none_or(|share| (0.0..=1.0).contains(&share)));
            }
        }
    }
}
