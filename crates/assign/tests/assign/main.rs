//! Tests of the placement policies, the completion time and its bound.

mod completion;
mod paper;
mod properties;
mod support;
