//! The simulator from outside: against hand-worked cases, a textbook solver, and `SimGrid`.

mod background;
mod guarded;
mod networks;
mod order;
mod properties;
mod reference;
mod routes;
mod simgrid;
mod support;
mod table;
