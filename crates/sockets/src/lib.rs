//! Counts what one host's sockets send and receive, and finds their owners, without capturing packets.
//!
//! * TCP: the kernel's own counters of each connection, which any user may read. They are read repeatedly, and a last time when a
//!   connection ends. The kernel announces ends to users who may administer the network.
//! * UDP has no such counters. If the kernel allows it, a BPF program counts all datagrams of sockets.
//!
//! Both cover the network namespace of the thread that creates the [`Watch`].

mod backlog;
mod datagrams;
mod diag;
mod owners;
mod watch;

pub use backlog::Backlog;
pub use datagrams::try_counting as try_counting_datagrams;
pub use owners::Owner;
pub use watch::{Moved, Report, Watch};
