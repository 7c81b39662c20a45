//! Stops the blocking threads of work that nobody waits for any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells a blocking thread to stop when the task that waits for it is dropped.
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
