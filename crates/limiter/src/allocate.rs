//! Rate allocation (`ElasticSwitch`, section 4.2; Seawall): the rate at which a pair may send.

use gavotte_net::{Bandwidth, Seconds};

use crate::parameters::Allocation;

/// The sending end's information about the last period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Feedback {
    /// Rate of the pair behind its limiter, in bit/s.
    pub rate_bps: f64,
    /// Bytes that were lost, as the receiver reports.
    pub lost_bytes: f64,
    /// Bytes that arrived marked or waited too long, as the receiver reports.
    pub marked_bytes: f64,
    /// Whether packets were marked. If not, `marked_bytes` are bytes that waited too long.
    pub marks: bool,
    /// Bytes that arrived, as the receiver reports.
    pub bytes: f64,
}

/// The reason for a pair's present limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing limits the pair: its limit grows.
    Growing,
    /// The pair does not use its limit.
    Unused,
    /// Packets were lost in the last period.
    Lost,
    /// Packets were marked in the last period.
    Marked,
    /// The pair waits after congestion (Hold-Increase).
    Holding,
    /// The limit is at its maximum.
    Ceiling,
    /// The receiver is silent: the limit is the guarantee.
    Silent,
}

/// The limit of one pair.
#[derive(Clone, Debug)]
pub struct Allocator {
    /// The constants in use: one of the two sets.
    rules: Allocation,
    marked: Allocation,
    unmarked: Allocation,
    /// When packets were marked last.
    marks_s: Option<f64>,
    guarantee_bps: f64,
    ceiling_bps: f64,
    /// The weighted, TCP-like rate (the paper's `R_W`).
    weighted_bps: f64,
    /// The rate before the last congestion, and the rate after it.
    goal_bps: f64,
    low_bps: f64,
    /// How long the limit has grown since then, and in how many periods beyond the goal.
    grown_s: f64,
    beyond: f64,
    hold_until_s: f64,
    /// Until this time, marks and drops belong to packets that were sent before the last fall.
    deaf_until_s: f64,
    heard_s: f64,
    round_trip_s: f64,
    held: Held,
    fresh: bool,
}

/// The lowest limit in bit/s: one packet of 1500 bytes in a quarter of a second.
const LEAST_BPS: f64 = 50e3;
/// Longest time that a report covers. Earlier counts are forgotten, as after a silence.
const REPORT_MOST_S: f64 = 0.5;
/// Largest number of growth steps for one report; the longest report covers 34 steps of 15 ms.
const MOST_STEPS: f64 = 100.0;
/// A path marks packets if it marked some within this time. A pair that sends little sees few of its path's marks.
const MARKS_S: f64 = 10.0;

impl Allocator {
    /// Creates the allocator of a new pair.
    ///
    /// Until there is feedback, the pair may send at `start_bps` if that is above its guarantee, so that a short flow
    /// is not slowed. The first congestion reduces the limit to the guarantee. `ceiling_bps` is the highest limit
    /// (infinite = no maximum).
    pub fn new(
        Seconds(now_s): Seconds,
        Bandwidth(guarantee_bps): Bandwidth,
        Bandwidth(start_bps): Bandwidth,
        Bandwidth(ceiling_bps): Bandwidth,
        rules: &Allocation,
    ) -> Self {
        Self {
            rules: *rules,
            marked: *rules,
            unmarked: *rules,
            marks_s: None,
            guarantee_bps,
            ceiling_bps,
            weighted_bps: start_bps.max(guarantee_bps).min(ceiling_bps),
            goal_bps: 0.0,
            low_bps: 0.0,
            grown_s: 0.0,
            beyond: 0.0,
            hold_until_s: now_s,
            deaf_until_s: now_s,
            heard_s: now_s,
            round_trip_s: 0.0,
            held: Held::Growing,
            fresh: true,
        }
    }

    /// Returns this allocator with other constants for congestion without marks.
    ///
    /// They apply from the first loss or wait on a path without marks until packets are marked.
    #[must_use]
    pub fn without_marks(self, unmarked: &Allocation) -> Self {
        Self {
            unmarked: *unmarked,
            ..self
        }
    }

    /// Processes the feedback of a period and the pair's present guarantee. Returns the new limit in bit/s.
    pub fn feedback(
        &mut self,
        Seconds(now_s): Seconds,
        feedback: &Feedback,
        Bandwidth(guarantee_bps): Bandwidth,
    ) -> f64 {
        let elapsed_s = (now_s - self.heard_s).clamp(0.0, REPORT_MOST_S);
        self.heard_s = now_s;
        self.guarantee_bps = guarantee_bps;
        self.choose(now_s, feedback);
        let limit_bps = self.bounded(self.weighted_bps);
        // Packets that are marked or lost now were sent before the last fall had an effect.
        let hears = now_s >= self.deaf_until_s;
        let congested = hears && (feedback.lost_bytes > 0.0 || feedback.marked_bytes > 0.0);
        self.held = if congested {
            self.fall(now_s, elapsed_s, limit_bps, feedback)
        } else if now_s < self.hold_until_s.max(self.deaf_until_s) {
            Held::Holding
        } else if feedback.rate_bps < self.rules.use_to_grow * limit_bps {
            let used_bps = feedback.rate_bps / self.rules.use_to_grow;
            self.weighted_bps += self.rules.unused_decrease * (used_bps.max(guarantee_bps).min(limit_bps) - limit_bps);
            Held::Unused
        } else {
            self.grow(elapsed_s, limit_bps);
            Held::Growing
        };
        self.fresh = false;
        self.weighted_bps = self.bounded(self.weighted_bps);
        if self.held == Held::Growing && self.weighted_bps >= self.ceiling_bps {
            self.held = Held::Ceiling;
        }
        self.weighted_bps
    }

    /// The present limit in bit/s. After [`Allocation::silence_s`] without feedback it is the guarantee.
    pub fn limit_bps(&self, Seconds(now_s): Seconds) -> f64 {
        if self.is_silent(now_s) {
            self.fallback_bps()
        } else {
            self.bounded(self.weighted_bps)
        }
    }

    /// The reason for the present limit.
    pub fn held(&self, Seconds(now_s): Seconds) -> Held {
        if self.is_silent(now_s) { Held::Silent } else { self.held }
    }

    /// The static limit without reports from the receiver: the guarantee, but at most the ceiling.
    pub fn fallback_bps(&self) -> f64 {
        self.guarantee_bps.max(LEAST_BPS).min(self.ceiling_bps)
    }

    /// Sets the highest limit of the pair.
    pub fn set_ceiling(&mut self, Bandwidth(ceiling_bps): Bandwidth) {
        self.ceiling_bps = ceiling_bps;
    }

    /// Sets the round trip of the pair's path, without queues. A limit shows its effect only after a round trip.
    pub fn set_round_trip(&mut self, Seconds(round_trip_s): Seconds) {
        self.round_trip_s = round_trip_s;
    }

    fn is_silent(&self, now_s: f64) -> bool {
        now_s - self.heard_s > self.rules.silence_s
    }

    /// Chooses the constants by the signs of congestion that the path has shown.
    fn choose(&mut self, now_s: f64, feedback: &Feedback) {
        if feedback.marks {
            (self.rules, self.marks_s) = (self.marked, Some(now_s));
        }
        let congested = feedback.lost_bytes > 0.0 || feedback.marked_bytes > 0.0;
        if congested && self.marks_s.is_none_or(|marks_s| now_s - marks_s > MARKS_S) {
            self.rules = self.unmarked;
        }
    }

    fn bounded(&self, rate_bps: f64) -> f64 {
        let least = if self.rules.guarantees { self.guarantee_bps } else { 0.0 };
        rate_bps.max(least).max(LEAST_BPS).min(self.ceiling_bps)
    }

    fn fall(&mut self, now_s: f64, elapsed_s: f64, limit_bps: f64, feedback: &Feedback) -> Held {
        let rules = &self.rules;
        let arrived = feedback.bytes.max(feedback.marked_bytes);
        let marked = if arrived > 0.0 {
            feedback.marked_bytes / arrived
        } else {
            0.0
        };
        let lost = if feedback.lost_bytes > 0.0 {
            rules.loss_decrease
        } else {
            0.0
        };
        self.goal_bps = limit_bps;
        // A report that covers a long time stands for as many falls as that time would have had.
        let falls = (elapsed_s / (rules.deaf_periods.ceil().max(1.0) * rules.period_s)).max(1.0);
        let rate_bps = limit_bps * (1.0 - lost).min((1.0 - rules.mark_decrease * marked).powf(falls));
        self.weighted_bps = if self.fresh { self.guarantee_bps } else { rate_bps };
        self.low_bps = self.bounded(self.weighted_bps);
        (self.grown_s, self.beyond) = (0.0, 0.0);
        self.deaf_until_s = now_s + rules.deaf_periods * rules.period_s;
        let held = rules.hold_per_loss * feedback.lost_bytes + rules.hold_per_mark * feedback.marked_bytes;
        let hold_s = 8.0 * held / self.guarantee_bps.max(LEAST_BPS);
        self.hold_until_s = self.hold_until_s.max(now_s + hold_s.min(rules.hold_most_s));
        if feedback.lost_bytes > 0.0 {
            Held::Lost
        } else {
            Held::Marked
        }
    }

    /// Grows the limit. A report that covers a long time stands for as many steps as that time would have had. Each
    /// step starts from the result of the step before. On a far path time counts for less, so that the limit grows by as
    /// much in a round trip as on a near path.
    fn grow(&mut self, elapsed_s: f64, mut limit_bps: f64) {
        let rules = &self.rules;
        let elapsed_s = elapsed_s * (rules.near_s / self.round_trip_s).min(1.0);
        let steps = (elapsed_s / rules.period_s).ceil().clamp(1.0, MOST_STEPS);
        let (each_s, periods) = (elapsed_s / steps, elapsed_s / rules.period_s / steps);
        for _ in 0..steps as u32 {
            self.grown_s += each_s;
            let left = (1.0 - self.grown_s * rules.time_scalar).max(0.0);
            limit_bps += if limit_bps < self.goal_bps && left > 0.0 {
                let curve_bps = self.goal_bps - (self.goal_bps - self.low_bps) * left.powi(3);
                (curve_bps - limit_bps).max(0.0)
            } else {
                let caution = (self.guarantee_bps / limit_bps).min(1.0).powf(rules.rate_caution);
                self.beyond += periods;
                rules.delta_bps * (self.guarantee_bps / rules.weight_unit_bps) * self.beyond * periods * caution
            };
        }
        self.weighted_bps = limit_bps;
    }
}
