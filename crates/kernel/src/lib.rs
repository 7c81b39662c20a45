//! Linux behind its own doors: netlink messages as bytes, BPF programs as instructions, and the few system calls that load them.
//!
//! Emitted from Rust rather than compiled from C: the agent is one static file, a bare machine builds it without clang,
//! and the programs are short.

pub mod assembler;
pub mod bpf;
pub mod netlink;
