//! Every constant of guarantee partitioning and rate allocation, with its origin.
//!
//! Origins:
//!
//! * *paper*: `ElasticSwitch`, SIGCOMM 2013.
//! * *Seawall*: NSDI 2011.
//! * *inferred*: the papers give the idea but no number. It was tuned in the simulator (`make bench-guarantee`).
//! * *own*: not in the papers.

/// All constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Share of every link that is never guaranteed. 0.1: the paper keeps the sum of guarantees on a link of 1000
    /// Mbit/s below 900 (7.1).
    pub headroom: f64,
    /// Share of a link's rate at which a phantom queue drains, so that it marks before the real queue grows. 0.95, own.
    pub phantom_drain: f64,
    /// Constants of guarantee partitioning.
    pub partition: Partition,
    /// Constants of rate allocation.
    pub allocation: Allocation,
    /// Constants of rate allocation for a pair whose path marks no packets, but delays them.
    pub delayed: Allocation,
    /// Constants of rate allocation for a pair whose path loses packets and neither marks nor delays them.
    pub unmarked: Allocation,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            headroom: 0.1,
            phantom_drain: 0.95,
            partition: Partition::default(),
            allocation: Allocation::default(),
            delayed: Allocation::delay(),
            unmarked: Allocation::loss(),
        }
    }
}

impl Parameters {
    /// Sets one constant by its name, in all sets of constants of rate allocation. Integers and choices are set by a number
    /// too; for a choice, 0 means no.
    ///
    /// # Errors
    /// All names, if no constant has this name.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), &'static [&'static str]> {
        let partition = &mut self.partition;
        let constant = match name {
            "headroom" => &mut self.headroom,
            "phantom_drain" => &mut self.phantom_drain,
            "partition_period_s" => &mut partition.period_s,
            "full_use" => &mut partition.full_use,
            "growth" => &mut partition.growth,
            "floor" => &mut partition.floor,
            "hysteresis" => &mut partition.hysteresis,
            "idle_s" => &mut partition.idle_s,
            "mice_floor" => &mut partition.mice_floor,
            "mice_bytes" => {
                partition.mice_bytes = value as u64;
                return Ok(());
            }
            _ => {
                if name == "silence_s" {
                    partition.silence_s = value;
                }
                let sets = [&mut self.allocation, &mut self.delayed, &mut self.unmarked];
                let known = sets.map(|rules| rules.set(name, value));
                return known[0].then_some(()).ok_or(Self::NAMES);
            }
        };
        *constant = value;
        Ok(())
    }

    /// The names that [`Parameters::set`] accepts.
    pub const NAMES: &'static [&'static str] = &[
        "headroom",
        "phantom_drain",
        "partition_period_s",
        "full_use",
        "growth",
        "floor",
        "hysteresis",
        "idle_s",
        "mice_bytes",
        "mice_floor",
        "silence_s",
        "near_s",
        "allocation_period_s",
        "guarantees",
        "delta_bps",
        "weight_unit_bps",
        "time_scalar",
        "loss_decrease",
        "mark_decrease",
        "delay_most_s",
        "delay_decrease",
        "deaf_periods",
        "hold_per_loss",
        "hold_per_mark",
        "hold_most_s",
        "rate_caution",
        "use_to_grow",
        "beyond_most_s",
        "steady",
        "delay_yield",
        "calm_s",
        "calm_grow_s",
        "calm_most",
        "unused_decrease",
        "start",
        "pooled_loss",
    ];
}

/// Constants of guarantee partitioning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partition {
    /// Time between two divisions of the hoses. 50 ms; the paper varies it from 50 to 150 ms (7.2).
    pub period_s: f64,
    /// A pair that uses at least this share of its limiter may need any rate. 0.9, inferred.
    pub full_use: f64,
    /// The demand of a pair that uses less is its rate times this factor. 1.25, inferred.
    pub growth: f64,
    /// Smallest demand of an active pair as a share of the hose, so that no pair starves. 0.002, inferred: with 0.01,
    /// ten pairs with little to send take a tenth of the hose from a long flow.
    pub floor: f64,
    /// Shares change only if at least one of them would change by more than this share of itself. 0.05, inferred.
    pub hysteresis: f64,
    /// Idle time after which a pair gives its share back. 300 ms, longer than the least time-out of TCP, own; 100 ms
    /// in [`Partition::paper`], inferred.
    pub idle_s: f64,
    /// Pairs that have sent fewer bytes share one slot of the hose (mice). Short flows to many different hosts then
    /// cost a long flow no more than they use. 64 KiB, own; 0 = off, as in the paper (7.1, Fig. 9).
    pub mice_bytes: u64,
    /// Smallest share of the hose for the slot of such pairs, while there are any. 0.03, own.
    pub mice_floor: f64,
    /// Silence after which an agent counts as lost. 1 s, own.
    pub silence_s: f64,
}

impl Default for Partition {
    fn default() -> Self {
        Self {
            period_s: 0.05,
            full_use: 0.9,
            growth: 1.25,
            floor: 0.002,
            hysteresis: 0.05,
            idle_s: 0.3,
            mice_bytes: 64 * 1024,
            mice_floor: 0.03,
            silence_s: 1.0,
        }
    }
}

impl Partition {
    /// The paper's constants: no slot for mice.
    pub fn paper() -> Self {
        Self {
            idle_s: 0.1,
            mice_bytes: 0,
            ..Self::default()
        }
    }
}

/// Constants of rate allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allocation {
    /// How often limits change. 15 ms; the paper varies it from 10 to 30 ms (7.2).
    pub period_s: f64,
    /// Whether a pair never gets less than its guarantee. True; false is Seawall, which has weights and no guarantees.
    pub guarantees: bool,
    /// The step of the convex curve (7.2: 0.5 Mbit/s, "more aggressive" 2.5 Mbit/s), bit/s, for a pair with a guarantee
    /// of `weight_unit_bps` and in proportion for others.
    pub delta_bps: f64,
    /// The guarantee whose weight is 1, bit/s. Inferred: the papers weight by the guarantee and give no unit.
    pub weight_unit_bps: f64,
    /// Seawall's time scalar `T_S` (7.2: 1.5, "more aggressive" 2.0): the concave curve returns to the goal, the rate
    /// before the congestion, in 1/`T_S` seconds.
    pub time_scalar: f64,
    /// A loss reduces a pair's rate by this share. Inferred.
    pub loss_decrease: f64,
    /// Marks reduce a pair's rate by this share times the share of its bytes that were marked. Inferred.
    pub mark_decrease: f64,
    /// Packets that wait longer than this in the network are a sign of congestion, with all of them from twice this wait
    /// on. Drops reveal a deep queue seconds too late. Own; 0 = off, as in the paper.
    pub delay_most_s: f64,
    /// Waiting reduces a pair's rate to that of its arrivals, and by this share times the share of its bytes that
    /// waited. Own.
    pub delay_decrease: f64,
    /// Number of periods after a fall in which marks and drops belong to packets sent before it. In these periods the
    /// pair neither falls nor grows. Own; 0 in the paper.
    pub deaf_periods: f64,
    /// Hold-Increase (7.2): after a loss, a pair waits for this factor times the time in which its guarantee carries
    /// the lost bytes. The paper says that the wait depends on drops and guarantee (Table 2); the factor is inferred; 0
    /// = off.
    pub hold_per_loss: f64,
    /// The same for marked bytes.
    pub hold_per_mark: f64,
    /// Longest wait in seconds. Inferred.
    pub hold_most_s: f64,
    /// Rate-Caution (7.2): the further a pair is above its guarantee, the slower it grows: by guarantee / rate to this
    /// power. The paper has the idea, the formula is inferred; 0 = off. With drops it is 2: a pair without drops must
    /// grow much slower than the pairs that fell, or the rest is not shared by guarantees.
    pub rate_caution: f64,
    /// A pair grows only while it uses at least this share of its limit. Inferred.
    pub use_to_grow: f64,
    /// Longest time that one report counts for growth beyond the former rate. A pair that carries little has rare
    /// reports, and learns late that a link is full. Own; infinite in the paper.
    pub beyond_most_s: f64,
    /// Share of its guarantee by which a pair also grows in a second beyond its former rate. Own; 0 in the paper.
    pub steady: f64,
    /// After a fall by waiting, the goal is below the rate before by this share of what exceeded the guarantee. Pairs
    /// thus approach shares by guarantees. Own.
    pub delay_yield: f64,
    /// A pair grows exponentially after this time without any sign of congestion. Own; infinite in the paper.
    pub calm_s: f64,
    /// The time in which such growth becomes e times as fast. Own.
    pub calm_grow_s: f64,
    /// Largest share by which one report lets a limit grow so, and less if the report covers more than 30 ms. Own.
    pub calm_most: f64,
    /// Share by which an unused limit falls each period towards the used rate, but not below the guarantee. No pair can
    /// therefore save a high limit for later. Own.
    pub unused_decrease: f64,
    /// Share of its host's hose at which a new pair may start until there is feedback, so that a short flow is not
    /// slowed. Own; 0 in the paper, where a pair starts at its guarantee.
    pub start: f64,
    /// Share of a receiving host's losses that is divided among all its pairs in proportion to their bytes. A drop that
    /// affects few pairs then slows all of them. Own; 0 in the paper.
    pub pooled_loss: f64,
    /// Silence of the receiver after which a pair is limited to its guarantee. 1 s, own.
    pub silence_s: f64,
    /// Longest round trip at which limits grow at full speed. At a longer one they grow slower in proportion. Own;
    /// infinite in the paper, whose networks are near.
    pub near_s: f64,
}

impl Default for Allocation {
    /// Our own constants for drops and marks of a phantom queue.
    fn default() -> Self {
        Self {
            period_s: 0.015,
            guarantees: true,
            delta_bps: 1e6,
            weight_unit_bps: 100e6,
            time_scalar: 1.5,
            loss_decrease: 0.3,
            mark_decrease: 0.05,
            delay_most_s: 0.004,
            delay_decrease: 0.25,
            deaf_periods: 1.9,
            hold_per_loss: 20.0,
            hold_per_mark: 0.0,
            hold_most_s: 2.0,
            rate_caution: 1.0,
            use_to_grow: 0.75,
            beyond_most_s: 0.06,
            steady: 0.0,
            delay_yield: 0.05,
            calm_s: 0.7,
            calm_grow_s: 0.3,
            calm_most: 0.5,
            unused_decrease: 0.05,
            start: 1.0,
            pooled_loss: 1.0,
            silence_s: 1.0,
            near_s: 0.04,
        }
    }
}

impl Allocation {
    /// Sets one constant by its name. Returns whether there is such a constant.
    fn set(&mut self, name: &str, value: f64) -> bool {
        let constant = match name {
            "allocation_period_s" => &mut self.period_s,
            "delta_bps" => &mut self.delta_bps,
            "weight_unit_bps" => &mut self.weight_unit_bps,
            "time_scalar" => &mut self.time_scalar,
            "loss_decrease" => &mut self.loss_decrease,
            "mark_decrease" => &mut self.mark_decrease,
            "delay_most_s" => &mut self.delay_most_s,
            "delay_decrease" => &mut self.delay_decrease,
            "beyond_most_s" => &mut self.beyond_most_s,
            "steady" => &mut self.steady,
            "delay_yield" => &mut self.delay_yield,
            "calm_s" => &mut self.calm_s,
            "calm_grow_s" => &mut self.calm_grow_s,
            "calm_most" => &mut self.calm_most,
            "deaf_periods" => &mut self.deaf_periods,
            "hold_per_loss" => &mut self.hold_per_loss,
            "hold_per_mark" => &mut self.hold_per_mark,
            "hold_most_s" => &mut self.hold_most_s,
            "rate_caution" => &mut self.rate_caution,
            "use_to_grow" => &mut self.use_to_grow,
            "unused_decrease" => &mut self.unused_decrease,
            "start" => &mut self.start,
            "pooled_loss" => &mut self.pooled_loss,
            "silence_s" => &mut self.silence_s,
            "near_s" => &mut self.near_s,
            "guarantees" => {
                self.guarantees = value != 0.0;
                return true;
            }
            _ => return false,
        };
        *constant = value;
        true
    }

    /// Our own constants for short queues that do not mark: drops alone.
    ///
    /// Drops are rare, so each has a small effect that lasts. A pair falls by 22 %, less than TCP does, waits there for up to 0.6 s,
    /// returns to its rate in two seconds, and then hardly grows. All five constants were tuned together in the simulator:
    ///
    /// * With rarer or smaller falls, 300 senders leave a host less than its guarantee.
    /// * With larger falls, two pairs use less than 90 % of a link.
    /// * If pairs return in one second, two pairs whose guarantees fill two thirds of a link share the rest 1 : 1.5 instead of 1 : 2.
    ///
    /// A pair that drops miss must not grow exponentially next to one that they hit, so it takes 8 s until it does.
    pub fn loss() -> Self {
        Self {
            delta_bps: 0.2e6,
            time_scalar: 0.5,
            loss_decrease: 0.22,
            hold_per_loss: 6000.0,
            hold_most_s: 0.6,
            rate_caution: 2.0,
            calm_s: 8.0,
            start: 0.5,
            ..Self::default()
        }
    }

    /// Our own constants for deep queues that do not mark: waiting, and drops.
    ///
    /// All pairs of a full link see its queue at about the same time, so growth need not be cautious. Its steps are in proportion to
    /// guarantees. A fall of a fifth that returns in a quarter of a second empties the queue and leaves 96 % of the link in use. With
    /// a smaller fall that returns slower, a connection among 50 others finds a queue of 5 to 10 ms too often to regain its rate.
    /// Growth by a quarter for each report at most keeps the queue of many small pairs shorter than by half.
    pub fn delay() -> Self {
        Self {
            delta_bps: 0.0,
            time_scalar: 4.0,
            delay_decrease: 0.2,
            calm_most: 0.25,
            steady: 0.5,
            ..Self::default()
        }
    }

    /// The paper's constants with drops, "less aggressive" (7.2).
    pub fn paper_loss() -> Self {
        Self {
            delta_bps: 0.5e6,
            hold_per_loss: 3000.0,
            hold_most_s: 30.0,
            unused_decrease: 0.0,
            deaf_periods: 0.0,
            start: 0.0,
            pooled_loss: 0.0,
            delay_most_s: 0.0,
            beyond_most_s: f64::INFINITY,
            calm_s: f64::INFINITY,
            near_s: f64::INFINITY,
            ..Self::default()
        }
    }

    /// The paper's constants with marks.
    pub fn paper_ecn() -> Self {
        Self {
            mark_decrease: 0.5,
            hold_per_loss: 20.0,
            hold_per_mark: 1.0,
            hold_most_s: 2.0,
            ..Self::paper_loss()
        }
    }

    /// Seawall: weights instead of guarantees, no Hold-Increase, no Rate-Caution (7.2, "No H-I & R-C").
    pub fn seawall() -> Self {
        Self {
            guarantees: false,
            hold_per_loss: 0.0,
            hold_per_mark: 0.0,
            rate_caution: 0.0,
            ..Self::paper_loss()
        }
    }
}
