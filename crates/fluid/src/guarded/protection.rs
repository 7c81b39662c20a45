//! Methods that protect hosts from each other's traffic.

use gavotte_limiter::{Allocation, Parameters, Partition};

use super::hosts::{Hose, Tenant};
use super::port::Queues;

/// The method that protects hosts from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// No protection.
    None,
    /// Each pair is limited to its guarantee (as in Oktopus, SIGCOMM 2011).
    Static,
    /// Each pair has a weight, its source's share, and no guarantee (Seawall, NSDI 2011).
    Seawall,
    /// Each pair gets its guarantee and spare capacity.
    Guarantees,
}

/// A named protection: its method, its constants, and whether links mark.
#[derive(Clone, Copy, Debug)]
pub struct Protection {
    /// The method.
    pub method: Method,
    /// The method's constants.
    pub parameters: Parameters,
    /// The same as [`Queues::drain`].
    pub drain: f64,
    /// The same as [`Guarding::adapts`].
    pub adapts: bool,
}

impl Protection {
    /// The names that [`Protection::named`] accepts.
    pub const NAMES: &'static [&'static str] = &[
        "none",
        "static",
        "seawall",
        "elasticswitch-loss",
        "elasticswitch-ecn",
        "loss",
        "ecn",
        "auto",
    ];

    /// The protection of one of the [`Protection::NAMES`]; the last three are our own.
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
                let allocation = ours.delayed;
                (Method::Guarantees, Parameters { allocation, ..ours }, 0.0)
            }
            "ecn" => (Method::Guarantees, ours, ours.phantom_drain),
            "auto" => (Method::Guarantees, ours, 0.0),
            _ => return None,
        };
        Some(Self {
            method,
            parameters,
            drain,
            adapts: matches!(name, "auto" | "ecn" | "loss"),
        })
    }
}

/// Guarantees, and the method that enforces them.
#[derive(Clone, Copy, Debug)]
pub struct Guarding<'a> {
    /// The hoses of the hosts.
    pub hoses: &'a [Hose],
    /// Tenants with aggregate guarantees.
    pub tenants: &'a [Tenant],
    /// The method.
    pub method: Method,
    /// Constants of partitioning and allocation.
    pub parameters: Parameters,
    /// Whether pairs choose their constants by the signs of congestion that their paths show.
    pub adapts: bool,
    /// The queues of the network.
    pub queues: Queues,
    /// By flow: whether it sends at its cap regardless of losses. `None` = all are TCP.
    pub udp: Option<&'a [bool]>,
    /// Time between two states of the network, in seconds.
    pub step_s: f64,
    /// Length of the windows in which guarantees count as met or unmet, in seconds.
    pub window_s: f64,
}
