//! Agents as their controllers and peers see them. All tests are one binary, since each further one would take four
//! seconds to link.

mod agents;
mod callbacks;
mod command;
mod doors;
mod forwarding;
mod generated;
mod gone;
mod greetings;
mod handshake;
mod holds;
mod hostile;
mod kinds;
mod limits;
mod support;
