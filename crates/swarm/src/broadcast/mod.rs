//! Broadcast: brings one object to many hosts.
//!
//! The object is cut into [blocks](layout::Layout). The source makes a manifest with a BLAKE3 hash of each block. Each
//! node has a [`Replica`](replica::Replica): the blocks that it holds, and those that it is receiving. A node
//! subscribes to parents for sets of blocks. A parent [serves](serving::Serving) the wanted blocks, lowest first, as
//! soon as it has some of a block's bytes. A [mechanism](mechanism) plans the subscriptions. A
//! [`Conductor`](conductor::Conductor) changes them when hosts die or fall behind.

pub mod blocks;
pub mod conductor;
pub mod cornet;
pub mod ground;
pub mod layout;
pub mod mechanism;
pub mod mesh;
pub mod packing;
pub mod rehearsal;
pub mod replica;
pub mod serving;
pub mod tree;
