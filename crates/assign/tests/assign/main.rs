//! Tests of the placement policies, the completion time and its bound.

mod bounds;
mod completion;
mod cuts;
mod limits;
mod paper;
mod properties;
mod support;
