//! What one host's sockets send and receive, and whose they are: no packet is captured.
//!
//! TCP by the kernel's own counters of each connection, which any user may read; they are read again and again, and once
//! more as a connection ends, which the kernel tells those who may administer the network. UDP has no such counters: where
//! the kernel lets a BPF program look at what sockets send and receive, that counts their datagrams, all of them.
//! Both are of the network namespace of the thread that makes the [`Watch`].

mod datagrams;
mod diag;
mod owners;
mod watch;

pub use owners::Owner;
pub use watch::{Moved, Report, Watch};
