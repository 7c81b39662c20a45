//! Vanished peers, without which a run continues.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::error::WorkError;

/// Longest reason that is kept, in bytes.
const MAX_REASON_BYTES: usize = 500;

/// The dropped peers of a hold, each with the first reason that was given.
#[derive(Debug)]
pub struct Dropped(watch::Sender<BTreeMap<String, String>>);

impl Default for Dropped {
    fn default() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }
}

impl Dropped {
    /// Drops a peer: work with that peer ends.
    pub fn add(&self, peer: &str, reason: &str) {
        let reason = cut(reason, MAX_REASON_BYTES).to_owned();
        self.0.send_if_modified(|dropped| {
            let new = !dropped.contains_key(peer);
            if new {
                dropped.insert(peer.to_owned(), reason);
            }
            new
        });
    }

    /// Removes a peer from the dropped ones.
    pub fn remove(&self, peer: &str) {
        self.0.send_if_modified(|dropped| dropped.remove(peer).is_some());
    }

    /// Runs work with a peer until the peer is dropped.
    ///
    /// # Errors
    /// [`WorkError::Dropped`], or the error of the work.
    pub async fn unless<T>(
        &self,
        peer: &str,
        work: impl Future<Output = Result<T, WorkError>>,
    ) -> Result<T, WorkError> {
        tokio::select! {
            biased;
            reason = self.reason(peer) => Err(WorkError::Dropped { peer: peer.to_owned(), reason }),
            result = work => result,
        }
    }

    /// Waits until a peer is dropped, and returns the reason.
    async fn reason(&self, peer: &str) -> String {
        let mut changes = self.0.subscribe();
        loop {
            if let Some(reason) = changes.borrow_and_update().get(peer) {
                return reason.clone();
            }
            // The sender lives as long as `self`.
            drop(changes.changed().await);
        }
    }
}

/// Returns at most this many bytes of a text, cut between characters.
fn cut(text: &str, most: usize) -> &str {
    let fits = |at: &usize| text.is_char_boundary(*at);
    let end = (0..=most.min(text.len())).rev().find(fits).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn work_with_a_dropped_peer_ends_and_does_not_begin() {
        let dropped = Dropped::default();
        assert_eq!(dropped.unless("b", ready(Ok(1))).await.unwrap(), 1);
        let (ended, ()) = tokio::join!(dropped.unless("b", pending::<Result<(), WorkError>>()), async {
            dropped.add("c", "another");
            dropped.add("b", "its cable is out");
            dropped.add("b", "later");
        });
        assert_eq!(ended.unwrap_err().to_string(), "`b` was dropped: its cable is out");
        assert!(dropped.unless("b", ready(Ok(()))).await.is_err());
        dropped.remove("b");
        assert!(dropped.unless("b", ready(Ok(()))).await.is_ok());
        assert!(dropped.unless("a", ready(Ok(()))).await.is_ok());
    }

    #[tokio::test]
    async fn a_reason_is_cut_between_characters() {
        let dropped = Dropped::default();
        dropped.add("b", &"ü".repeat(MAX_REASON_BYTES));
        assert!(dropped.reason("b").await.len() <= MAX_REASON_BYTES);
    }
}
