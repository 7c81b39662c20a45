//! Interfaces of Linux that need no system tools: netlink messages as bytes, BPF programs as instructions, and the few
//! system calls that load them.
//!
//! The programs are generated in Rust, not compiled from C. The agent is therefore one static file, a machine without
//! clang can build it, and the programs are short.

pub mod assembler;
pub mod bpf;
pub mod netlink;
pub mod packet;
pub mod priority;
