//! The interface of a placement policy.

use crate::error::PlaceError;
use crate::problem::{Assignment, Problem};

/// A way to place tasks.
pub trait Policy: Sync {
    /// The name on the command line and in files.
    fn name(&self) -> &'static str;

    /// Gives every task a host with room for it.
    ///
    /// `seed` decides every random choice; policies without any ignore it.
    ///
    /// # Errors
    /// [`PlaceError`] if this policy finds no placement. Unless it is [`PlaceError::TooLarge`], one may still exist.
    fn place(&self, problem: &Problem, seed: u64) -> Result<Assignment, PlaceError>;
}
