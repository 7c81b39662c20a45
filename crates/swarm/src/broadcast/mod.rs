//! One object to many hosts.
//!
//! The object is cut into [blocks](layout::Layout), each with a BLAKE3 hash in a manifest that the source makes. A node
//! has a [`Replica`](replica::Replica) of it: what it holds, and what it is just receiving. It subscribes to parents for sets of
//! blocks; a parent [serves](serving::Serving) what is wanted of it, lowest block first, as soon as it has any bytes of
//! it. Who subscribes to whom is a plan.

pub mod blocks;
pub mod layout;
pub mod replica;
pub mod serving;
