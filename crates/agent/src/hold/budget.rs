//! The byte budget of a hold: every byte is reserved before it is sent.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::BudgetError;

/// The payload bytes that a hold may send.
#[derive(Debug)]
pub struct Allowance {
    cap: u64,
    taken: AtomicU64,
}

impl Allowance {
    /// Creates an allowance of `cap` bytes.
    pub fn new(cap: u64) -> Self {
        Self {
            cap,
            taken: AtomicU64::new(0),
        }
    }

    /// Bytes that the whole hold may send.
    pub fn cap(&self) -> u64 {
        self.cap
    }

    /// Bytes that were sent or are reserved.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` bytes. Dropping the reservation returns the bytes that were not spent.
    ///
    /// # Errors
    /// If fewer bytes are left.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation<'_>, BudgetError> {
        let take = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.cap);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map(|_| Reservation {
                allowance: self,
                unspent: bytes,
            })
            .map_err(|taken| BudgetError {
                asked: bytes,
                left: self.cap - taken,
                cap: self.cap,
            })
    }

    /// Reserves up to `bytes` bytes, as many as are left.
    fn reserve_up_to(&self, bytes: u64) -> u64 {
        let take = |taken: u64| Some(taken + bytes.min(self.cap - taken));
        let before = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.map_or(0, |taken| bytes.min(self.cap - taken))
    }
}

/// Bytes reserved for one send.
#[derive(Debug)]
pub struct Reservation<'a> {
    allowance: &'a Allowance,
    unspent: u64,
}

impl Reservation<'_> {
    /// Bytes that are reserved and not yet spent.
    pub fn unspent(&self) -> u64 {
        self.unspent
    }

    /// Records that `bytes` bytes of the reservation were sent.
    pub fn spend(&mut self, bytes: u64) {
        self.unspent = self.unspent.saturating_sub(bytes);
    }

    /// Reserves bytes again that were spent but have not arrived.
    pub fn restore(&mut self, bytes: u64) {
        self.unspent += bytes;
    }

    /// Raises an empty reservation to up to `bytes`, for a send whose length is not known in advance.
    ///
    /// # Errors
    /// If no byte is left.
    pub fn top_up(&mut self, bytes: u64) -> Result<(), BudgetError> {
        if self.unspent == 0 {
            self.unspent = self.allowance.reserve_up_to(bytes);
        }
        if self.unspent == 0 {
            return Err(BudgetError {
                asked: bytes,
                left: 0,
                cap: self.allowance.cap,
            });
        }
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.allowance.taken.fetch_sub(self.unspent, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspent_bytes_come_back() {
        let allowance = Allowance::new(100);
        let mut first = allowance.reserve(80).unwrap();
        assert_eq!(
            allowance.reserve(30).unwrap_err(),
            BudgetError {
                asked: 30,
                left: 20,
                cap: 100
            }
        );
        first.spend(60);
        first.restore(10);
        drop(first);
        assert_eq!(allowance.taken(), 50);
    }

    #[test]
    fn topping_up_ends_at_the_cap() {
        let allowance = Allowance::new(100);
        let mut open = allowance.reserve(0).unwrap();
        for left in [64, 36] {
            open.top_up(64).unwrap();
            assert_eq!(open.unspent(), left);
            open.spend(left);
        }
        assert!(open.top_up(64).is_err());
        drop(open);
        assert_eq!(allowance.taken(), 100);
    }

    #[test]
    fn a_huge_request_does_not_wrap_around() {
        let allowance = Allowance::new(u64::MAX);
        let _held = allowance.reserve(10).unwrap();
        assert!(allowance.reserve(u64::MAX).is_err());
    }
}
