//! The compiled module `gavotte._core`: only bindings to the other crates.
//!
//! Its Python interface is described in `python/gavotte/_core.pyi`.

mod answers;
mod broadcast;
mod capture;
mod chances;
mod collective;
mod constant;
mod errors;
mod fluid;
mod guarded;
mod letters;
mod network;
mod problem;
mod replay;
mod sockets;
mod topology;
mod transfer;

/// The compiled half of Gavotte; private, use the package's own modules.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    use pyo3::pyfunction;

    #[pymodule_export]
    use crate::answers::{Bottleneck, Compact, Completion, Explanation, Found, LinkTime, Proven};
    #[pymodule_export]
    use crate::broadcast::{BroadcastGround, Conductor, blocks_checksum, mechanisms};
    #[pymodule_export]
    use crate::capture::{Exports, captured};
    #[pymodule_export]
    use crate::chances::{chi_squared_quantile, student_quantile};
    #[pymodule_export]
    use crate::collective::Ranks;
    #[pymodule_export]
    use crate::constant::{column_quantile, ecef_tree, mode, principal};
    #[pymodule_export]
    use crate::fluid::{FlowList, Platform, Simulated, format_finish, parse_flows};
    #[pymodule_export]
    use crate::guarded::{Guarded, protections, simulate_guarded};
    #[pymodule_export]
    use crate::letters::Letters;
    #[pymodule_export]
    use crate::network::Network;
    #[pymodule_export]
    use crate::problem::{Problem, policies};
    #[pymodule_export]
    use crate::replay::{JobProgram, JobReplayed, default_algorithm};
    #[pymodule_export]
    use crate::sockets::SocketWatch;
    #[pymodule_export]
    use crate::transfer::{CoflowTrace, deadline_shortage, order_names, order_rates, serving_order, wss};

    /// The version of the compiled module.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// How the module was compiled: `release`, or `debug`, which no measurement should use.
    #[pyfunction]
    fn build_profile() -> &'static str {
        if cfg!(debug_assertions) { "debug" } else { "release" }
    }
}
