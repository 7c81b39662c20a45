//! Ways to protect hosts from each other.

use gavotte_limiter::{Allocation, Parameters, Partition};

use super::hosts::{Hose, Tenant};
use super::port::Queues;

/// How hosts are protected from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    None,
    /// Each pair has its guarantee and no more (as Oktopus, SIGCOMM 2011).
    Static,
    /// Each pair has a weight, its source's share, and no guarantee (Seawall, NSDI 2011).
    Seawall,
    /// Each pair has its guarantee and what others leave.
    Guarantees,
}

/// A protection by its name: how it works, with which constants, and whether links mark.
#[derive(Clone, Copy, Debug)]
pub struct Protection {
    /// How it works.
    pub method: Method,
    /// Its constants.
    pub parameters: Parameters,
    /// As [`Queues::drain`].
    pub drain: f64,
}

impl Protection {
    /// The names of [`Protection::named`].
    pub const NAMES: &'static [&'static str] = &[
        "none",
        "static",
        "seawall",
        "elasticswitch-loss",
        "elasticswitch-ecn",
        "loss",
        "ecn",
    ];

    /// One of [`Protection::NAMES`]; the last two are our own.
    pub fn named(name: &str) -> Option<Self> {
        let ours = Parameters::default();
        let paper = |allocation: Allocation| Parameters {
            partition: Partition::paper(),
            allocation,
            ..ours
        };
        let (method, parameters, drain) = match name {
            "none" => (Method::None, ours, 0.0),
            "static" => (Method::Static, ours, 0.0),
            "seawall" => (Method::Seawall, paper(Allocation::seawall()), 0.0),
            "elasticswitch-loss" => (Method::Guarantees, paper(Allocation::paper_loss()), 0.0),
            "elasticswitch-ecn" => (Method::Guarantees, paper(Allocation::paper_ecn()), 1.0),
            "loss" => {
                let allocation = Allocation::loss();
                (Method::Guarantees, Parameters { allocation, ..ours }, 0.0)
            }
            "ecn" => (Method::Guarantees, ours, ours.phantom_drain),
            _ => return None,
        };
        Some(Self {
            method,
            parameters,
            drain,
        })
    }
}

/// Guarantees, and what carries them out.
#[derive(Clone, Copy, Debug)]
pub struct Guarding<'a> {
    /// By host.
    pub hoses: &'a [Hose],
    /// Aggregates over hosts.
    pub tenants: &'a [Tenant],
    /// How they are kept.
    pub method: Method,
    /// Of partitioning and allocation.
    pub parameters: Parameters,
    /// Of the network.
    pub queues: Queues,
    /// By flow: whether it sends at its cap whatever is lost. `None` = all are TCP.
    pub udp: Option<&'a [bool]>,
    /// Time from one state of the network to the next, seconds.
    pub step_s: f64,
    /// What guarantees are judged over, seconds.
    pub window_s: f64,
}
