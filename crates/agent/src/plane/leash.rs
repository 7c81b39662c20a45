//! Stops blocking threads whose result is no longer needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes a blocking thread stop when the task that waits for it is dropped.
pub(crate) struct Leash(Arc<AtomicBool>);

impl Leash {
    pub(crate) fn new() -> (Self, Arc<AtomicBool>) {
        let cut = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&cut)), cut)
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
