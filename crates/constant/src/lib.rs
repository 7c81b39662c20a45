//! Finds the lasting part of repeatedly measured transfer times.
//!
//! The input is a [`Times`]: n snapshots of m pairs, NaN = not measured.
//!
//! * [`principal`] splits it into a low-rank part and sparse errors, as the RPCA paper does (Gong, He, Li, SC'14, section IV).
//! * [`mode`] solves the paper's own problem literally: rank one and the fewest errors.
//! * [`quantile`] is a quantile of each pair.
//!
//! The answers depend on the input alone, not on how many threads computed them.

mod eigen;
mod mode;
mod principal;
mod times;

pub use mode::{Mode, mode};
pub use principal::{Principal, principal};
pub use times::{Times, TimesError, quantile};
