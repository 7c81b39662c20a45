//! Windows of time in which the guarantee of a pair was met or not.

use std::collections::VecDeque;

/// Windows of this time are reported.
const REMEMBERED_S: f64 = 60.0;

/// Windows of the last minute, by second.
#[derive(Debug, Default)]
pub(super) struct Judged(VecDeque<(f64, u32, u32)>);

impl Judged {
    /// Records whether the guarantee was met in a number of windows that end now.
    pub(super) fn note(&mut self, now_s: f64, windows: u32, met: bool) {
        let second = now_s.floor();
        match self.0.back_mut() {
            Some((at, count, unmet)) if (*at - second).abs() < 0.5 => {
                *count += windows;
                *unmet += windows * u32::from(!met);
            }
            _ => self.0.push_back((second, windows, windows * u32::from(!met))),
        }
        while self.0.front().is_some_and(|(at, ..)| now_s - at > REMEMBERED_S) {
            self.0.pop_front();
        }
    }

    /// The number of windows, and of those that were unmet.
    pub(super) fn sums(&self, now_s: f64) -> (u64, u64) {
        let recent = self.0.iter().filter(|(at, ..)| now_s - at <= REMEMBERED_S);
        recent.fold((0, 0), |(windows, all_unmet), (_, count, unmet)| {
            (windows + u64::from(*count), all_unmet + u64::from(*unmet))
        })
    }

    /// Whether no window was judged.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_minute_counts() {
        let mut judged = Judged::default();
        for tenth in 0..1000 {
            judged.note(0.2 * f64::from(tenth), 1, tenth >= 500);
        }
        let (windows, unmet) = judged.sums(199.8);
        assert!((299..=305).contains(&windows), "{windows}");
        assert_eq!(unmet, 0);
        assert_eq!(judged.sums(300.0), (0, 0));
    }
}
