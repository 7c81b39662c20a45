//! BPF programs, written as instructions, and the few system calls that load them.
//!
//! Emitted from Rust rather than compiled from C: the agent is one static file, a bare machine builds it without clang,
//! and the programs are short.

mod assembler;
pub(crate) mod kernel;
pub(crate) mod programs;
