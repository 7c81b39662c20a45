//! Watches whether other programs change the host's interface, and has it built again.

use std::collections::BTreeMap;

use gavotte_shaper::{Shaper, ShaperError};
use tracing::warn;

/// Shortest time between two looks at the kernel's state. Programs that replace qdiscs make several changes.
const LOOK_S: f64 = 0.05;
/// Time between two looks after which the state is compared although the kernel has announced nothing.
const TRUST_S: f64 = 10.0;
/// Time between two looks while the state cannot be built again.
const FAIL_S: f64 = 1.0;

/// What other programs have changed.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Whether the kernel has announced a change since the last look.
    is_disturbed: bool,
    look_s: f64,
    /// How often each change was found.
    found: BTreeMap<String, u64>,
    /// What the last controller's order found.
    pub(super) last: Vec<String>,
    /// Why the interface could not be built again.
    broken: Option<String>,
    /// Why the last period failed; empty = it did not.
    pub(super) trouble: String,
}

impl Watch {
    /// Has the interface built again if another program has changed it.
    pub(super) fn look(&mut self, now_s: f64, shaper: &mut Shaper) -> Result<(), ShaperError> {
        self.is_disturbed |= shaper.is_disturbed();
        let rest_s = match (&self.broken, self.is_disturbed) {
            (Some(_), _) => FAIL_S,
            (None, true) => LOOK_S,
            (None, false) => TRUST_S,
        };
        if now_s - self.look_s < rest_s {
            return Ok(());
        }
        self.look_s = now_s;
        self.is_disturbed = false;
        self.repair(shaper).map(drop)
    }

    /// Has the interface built again now. Returns what had changed, one line each.
    pub(super) fn repair(&mut self, shaper: &mut Shaper) -> Result<Vec<String>, ShaperError> {
        let repaired = shaper.repair();
        self.broken = repaired.as_ref().err().map(ToString::to_string);
        let texts = repaired?;
        for text in &texts {
            warn!(
                device = shaper.device(),
                text, "another program changed the interface; it is built again"
            );
            *self.found.entry(text.clone()).or_default() += 1;
        }
        Ok(texts)
    }

    /// Why the guarantees cannot be kept now; empty = they are kept.
    pub(super) fn error(&self) -> String {
        self.broken.clone().unwrap_or_else(|| self.trouble.clone())
    }

    /// Records why a step failed. The next look comes soon, since the kernel's state may be the reason.
    pub(super) fn fail(&mut self, error: String) {
        self.is_disturbed |= self.trouble.is_empty();
        self.trouble = error;
    }

    /// What was found since the guarantees began, one line each.
    pub(super) fn repairs(&self) -> Vec<String> {
        let line = |(text, count): (&String, &u64)| match count {
            1 => text.clone(),
            count => format!("{text} ({count} times)"),
        };
        self.found.iter().map(line).collect()
    }
}
