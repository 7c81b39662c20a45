//! Agents as their controllers and peers meet them. One binary for all: each more would be linked for four seconds.

mod agents;
mod command;
mod doors;
mod gone;
mod handshake;
mod holds;
mod hostile;
mod kinds;
mod limits;
mod support;
