//! Errors between this crate and the kernel.

use std::io;

use thiserror::Error;

/// Why the data path of a host could not be set up, changed or read.
#[derive(Debug, Error)]
pub enum ShaperError {
    /// The kernel refused a request.
    #[error("{what}: {source}")]
    Kernel {
        /// The operation that failed.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The interface has a root queueing discipline of another program.
    #[error("{device} has a root qdisc `{kind}` of its own; remove it with `tc qdisc del dev {device} root`")]
    Occupied {
        /// The interface.
        device: String,
        /// The kind of qdisc.
        kind: String,
    },
    /// The interface has an `mq` root with a qdisc that could not be made again afterwards.
    #[error(
        "{device} has a root qdisc `mq` whose queues have `{kind}`, which could not be restored afterwards; remove it with \
         `tc qdisc del dev {device} root`"
    )]
    Queues {
        /// The interface.
        device: String,
        /// The kind of qdisc.
        kind: String,
    },
    /// The interface has the older qdisc for arriving packets, which excludes the newer one that the classifiers need.
    #[error(
        "{0} has an `ingress` qdisc of another program, where the classifiers need `clsact`; remove it with \
         `tc qdisc del dev {0} ingress`, or add its filters to `tc qdisc add dev {0} clsact` instead"
    )]
    Ingress(String),
    /// There is no such interface, or no route through one.
    #[error("{0}")]
    Device(String),
    /// Another process shapes in this network namespace.
    #[error("another agent on this host keeps guarantees already")]
    Claimed,
    /// There are more pairs than the maps can hold.
    #[error("at most {0} pairs on one interface")]
    Full(u32),
}

impl ShaperError {
    pub(crate) fn kernel(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Kernel {
            what: what.into(),
            source,
        }
    }
}
