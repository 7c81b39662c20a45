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
    /// Bytes that arrived marked, as the receiver reports.
    pub marked_bytes: f64,
    /// Bytes that waited too long in the network, as the receiver reports.
    pub waited_bytes: f64,
    /// Bytes that arrived, as the receiver reports.
    pub bytes: f64,
    /// The rate at which they arrived, in bit/s; zero = unknown.
    pub arrived_bps: f64,
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
    /// Packets waited too long in the last period.
    Waited,
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
    /// The constants in use: one of the three sets.
    rules: Allocation,
    marked: Allocation,
    delayed: Allocation,
    unmarked: Allocation,
    /// When packets were marked last, and when they waited last.
    marks_s: Option<f64>,
    waits_s: Option<f64>,
    /// When there was a sign of congestion last, or the pair was created.
    sign_s: f64,
    /// Whether the limit has grown faster than usual since then.
    rushed: bool,
    /// The rate at which bytes have arrived recently; zero = unknown.
    arrived_bps: f64,
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
    /// The silence after which the receiver counts as lost, if that is longer than usual.
    patience_s: f64,
    round_trip_s: f64,
    held: Held,
    fresh: bool,
}

/// The lowest limit in bit/s: one packet of 1500 bytes in a quarter of a second.
const LEAST_BPS: f64 = 50e3;
/// Longest time that a report covers. Earlier counts are forgotten, as after a silence.
const REPORT_MOST_S: f64 = 0.5;
/// Usual time between two reports. One that covers a longer time lets an unused limit fall further.
const REPORT_USUAL_S: f64 = 0.4;
/// Largest number of growth steps for one report; the longest report covers 34 steps of 15 ms.
const MOST_STEPS: f64 = 100.0;
/// A pair takes at least this many reports to be calm, and for its exponential growth to become e times as fast: its
/// reports are all that it sees of the path.
const RARE_REPORTS: f64 = 3.0;
/// If a report covers a longer time, exponential growth by it is smaller in proportion: the pair learns only by the next
/// report that a link is full, and what it has sent into the queue by then must not grow with that time.
const RUSH_REPORT_S: f64 = 0.03;
/// A path marks or delays packets if it did within this time. A pair that sends little sees few of its path's marks.
const SIGN_S: f64 = 10.0;
/// Time over which the rate of arrivals is averaged, in seconds.
const ARRIVED_S: f64 = 0.1;

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
            delayed: *rules,
            unmarked: *rules,
            marks_s: None,
            waits_s: None,
            sign_s: now_s,
            rushed: false,
            arrived_bps: 0.0,
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
            patience_s: 0.0,
            round_trip_s: 0.0,
            held: Held::Growing,
            fresh: true,
        }
    }

    /// Returns this allocator with other constants for congestion without marks.
    ///
    /// On a path without marks, `delayed` applies from the first wait on, and `unmarked` from the first loss on if
    /// packets have not waited. The constants of [`Self::new`] apply before, and as soon as packets are marked.
    #[must_use]
    pub fn without_marks(self, delayed: &Allocation, unmarked: &Allocation) -> Self {
        Self {
            delayed: *delayed,
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
        let since_s = now_s - self.heard_s;
        let elapsed_s = since_s.clamp(0.0, REPORT_MOST_S);
        self.heard_s = now_s;
        self.guarantee_bps = guarantee_bps;
        self.choose(now_s, feedback);
        self.smooth(elapsed_s, feedback);
        let limit_bps = self.bounded(self.weighted_bps);
        // Packets that are marked or lost now were sent before the last fall had an effect. A fall by waiting depends on
        // what arrives, so that it may be repeated.
        let hears = now_s >= self.deaf_until_s;
        let congested = feedback.lost_bytes > 0.0 || feedback.marked_bytes > 0.0;
        let waited = feedback.waited_bytes > 0.0;
        if congested || waited {
            self.sign_s = now_s;
        }
        self.held = if (hears && congested) || waited {
            self.fall(now_s, elapsed_s, limit_bps, feedback)
        } else if now_s < self.hold_until_s.max(self.deaf_until_s) {
            Held::Holding
        } else if feedback.rate_bps < self.rules.use_to_grow * limit_bps {
            let used_bps = feedback.rate_bps / self.rules.use_to_grow;
            let kept = (1.0 - self.rules.unused_decrease).powf((since_s / REPORT_USUAL_S).max(1.0));
            self.weighted_bps += (1.0 - kept) * (used_bps.max(guarantee_bps).min(limit_bps) - limit_bps);
            Held::Unused
        } else {
            self.grow(now_s, since_s.max(0.0), limit_bps);
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

    /// Sets the silence after which the receiver counts as lost, if that is longer than [`Allocation::silence_s`].
    pub fn set_patience(&mut self, Seconds(patience_s): Seconds) {
        self.patience_s = patience_s;
    }

    fn is_silent(&self, now_s: f64) -> bool {
        now_s - self.heard_s > self.rules.silence_s.max(self.patience_s)
    }

    /// Chooses the constants by the signs of congestion that the path has shown.
    fn choose(&mut self, now_s: f64, feedback: &Feedback) {
        if feedback.marked_bytes > 0.0 {
            self.marks_s = Some(now_s);
        }
        if feedback.waited_bytes > 0.0 {
            self.waits_s = Some(now_s);
        }
        let recent = |at_s: Option<f64>| at_s.is_some_and(|at_s| now_s - at_s <= SIGN_S);
        if recent(self.marks_s) {
            self.rules = self.marked;
        } else if recent(self.waits_s) {
            self.rules = self.delayed;
        } else if feedback.lost_bytes > 0.0 {
            self.rules = self.unmarked;
        }
    }

    /// Averages the rate of arrivals over a time that has a few reports of a fast pair.
    fn smooth(&mut self, elapsed_s: f64, feedback: &Feedback) {
        let now_bps = feedback.arrived_bps;
        if now_bps > 0.0 {
            let part = if self.arrived_bps > 0.0 {
                1.0 - (-elapsed_s / ARRIVED_S).exp()
            } else {
                1.0
            };
            self.arrived_bps += part * (now_bps - self.arrived_bps);
        }
    }

    fn bounded(&self, rate_bps: f64) -> f64 {
        let least = if self.rules.guarantees { self.guarantee_bps } else { 0.0 };
        rate_bps.max(least).max(LEAST_BPS).min(self.ceiling_bps)
    }

    /// Reduces the limit. Each sign has its own factor, and the lowest one counts.
    ///
    /// A fall by waiting starts from the rate that arrived. Together, all pairs of a full link then send less than the
    /// link carries, however far they were above that, and the queue drains. As long as it drains, that rate stays the
    /// same, so that further reports of the same queue reduce nothing.
    fn fall(&mut self, now_s: f64, elapsed_s: f64, limit_bps: f64, feedback: &Feedback) -> Held {
        let rules = &self.rules;
        let share = |part: f64| part / feedback.bytes.max(part).max(1.0);
        let (marked, waited) = (share(feedback.marked_bytes), share(feedback.waited_bytes));
        let hears = now_s >= self.deaf_until_s;
        let again = self.grown_s == 0.0 && self.goal_bps > 0.0;
        let mut goal_bps = limit_bps;
        if waited > 0.0 && again {
            goal_bps = self.goal_bps.max(limit_bps);
        }
        if (waited > 0.0 || self.rushed) && self.arrived_bps > 0.0 {
            goal_bps = goal_bps.min(self.arrived_bps);
        }
        // A report that covers a long time stands for as many falls as that time would have had.
        let falls = (elapsed_s / (rules.deaf_periods.ceil().max(1.0) * rules.period_s)).max(1.0);
        let by_loss = if hears && feedback.lost_bytes > 0.0 {
            1.0 - rules.loss_decrease
        } else {
            1.0
        };
        let by_marks = if hears {
            (1.0 - rules.mark_decrease * marked).powf(falls)
        } else {
            1.0
        };
        let by_delay = 1.0 - rules.delay_decrease * waited;
        let rate_bps = limit_bps.min(goal_bps * by_loss.min(by_marks).min(by_delay));
        let goal_bps = if waited > 0.0 && !again {
            goal_bps - rules.delay_yield * (goal_bps - self.guarantee_bps).max(0.0)
        } else {
            goal_bps
        };
        self.goal_bps = goal_bps;
        self.weighted_bps = if self.fresh { self.guarantee_bps } else { rate_bps };
        self.low_bps = self.bounded(self.weighted_bps);
        (self.grown_s, self.beyond, self.rushed) = (0.0, 0.0, false);
        if hears && (feedback.lost_bytes > 0.0 || marked > 0.0) {
            self.deaf_until_s = now_s + rules.deaf_periods * rules.period_s;
            let held = rules.hold_per_loss * feedback.lost_bytes + rules.hold_per_mark * feedback.marked_bytes;
            let hold_s = 8.0 * held / self.guarantee_bps.max(LEAST_BPS);
            self.hold_until_s = self.hold_until_s.max(now_s + hold_s.min(rules.hold_most_s));
        }
        if feedback.lost_bytes > 0.0 {
            Held::Lost
        } else if feedback.marked_bytes > 0.0 {
            Held::Marked
        } else {
            Held::Waited
        }
    }

    /// Grows the limit. A report that covers a long time stands for as many steps as that time would have had. Each
    /// step starts from the result of the step before. On a far path time counts for less, so that the limit grows by as
    /// much in a round trip as on a near path.
    ///
    /// After [`Allocation::calm_s`] without a sign of congestion, a pair grows exponentially. The step is in proportion to
    /// its guarantee, so that pairs on one link approach shares by guarantees. As its reports are the pair's only view of
    /// the path, each of them allows a small factor at most.
    fn grow(&mut self, now_s: f64, since_s: f64, mut limit_bps: f64) {
        let rules = &self.rules;
        let elapsed_s = since_s.min(REPORT_MOST_S);
        let rare_s = RARE_REPORTS * elapsed_s;
        let calm_s = now_s - self.sign_s - rules.calm_s.max(rare_s);
        let near = (rules.near_s / self.round_trip_s).min(1.0);
        let start_bps = limit_bps;
        let concave_s = elapsed_s * near;
        let steps = (concave_s / rules.period_s).ceil().clamp(1.0, MOST_STEPS);
        let (each_s, most_s) = (concave_s / steps, rules.beyond_most_s * near);
        let each_beyond_s = each_s.min(most_s / steps);
        let periods = each_beyond_s / rules.period_s;
        for _ in 0..steps as u32 {
            self.grown_s += each_s;
            let left = (1.0 - self.grown_s * rules.time_scalar).max(0.0);
            if limit_bps < self.goal_bps && left > 0.0 {
                let curve_bps = self.goal_bps - (self.goal_bps - self.low_bps) * left.powi(3);
                limit_bps = limit_bps.max(curve_bps);
            } else {
                let caution = (self.guarantee_bps / limit_bps).min(1.0).powf(rules.rate_caution);
                self.beyond += periods;
                let weight = self.guarantee_bps / rules.weight_unit_bps;
                limit_bps += rules.delta_bps * weight * self.beyond * periods * caution
                    + rules.steady * self.guarantee_bps * each_beyond_s;
            }
        }
        if calm_s > 0.0 {
            // The exponent is bounded, since the growth is, too.
            let times = (near * calm_s / rules.calm_grow_s.max(rare_s)).min(20.0).exp();
            let rushed_bps = start_bps + self.guarantee_bps * times * elapsed_s * near;
            let most = rules.calm_most * near * (RUSH_REPORT_S / since_s).min(1.0);
            let rushed_bps = rushed_bps.min(start_bps * (1.0 + most));
            if rushed_bps > limit_bps {
                (limit_bps, self.rushed) = (rushed_bps, true);
            }
        }
        self.weighted_bps = limit_bps;
    }
}
