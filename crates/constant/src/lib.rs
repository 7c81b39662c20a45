//! Finds what lasts in transfer times that were measured over and over.
//!
//! In goes a [`Times`]: n snapshots of m pairs, NaN = not measured. [`principal`] splits it into a low-rank part and
//! sparse errors as the RPCA paper does (Gong, He, Li, SC'14, section IV); [`mode`] takes the paper's own problem, rank
//! one and the fewest errors, at its word; [`quantile`] is each pair's own.
//!
//! The answers depend on the input alone, not on how many threads computed them.

mod eigen;
mod mode;
mod principal;
mod times;

pub use mode::{Mode, mode};
pub use principal::{Principal, principal};
pub use times::{Times, TimesError, quantile};
