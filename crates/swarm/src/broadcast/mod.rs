//! One object to many hosts.
//!
//! The object is cut into [blocks](layout::Layout), each with a BLAKE3 hash in a manifest that the source makes. A node
//! has a [`Replica`](replica::Replica) of it: what it holds, and what it is just receiving. It subscribes to parents for sets of
//! blocks; a parent [serves](serving::Serving) what is wanted of it, lowest block first, as soon as it has any bytes of
//! it. Who subscribes to whom is the plan of a [mechanism](mechanism), which a [`Conductor`](conductor::Conductor) changes around
//! hosts that die or fall behind.

pub mod blocks;
pub mod conductor;
pub mod cornet;
pub mod ground;
pub mod layout;
pub mod mechanism;
pub mod mesh;
pub mod replica;
pub mod serving;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod simulated_racks;
pub mod tree;
