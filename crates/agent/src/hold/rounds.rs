//! The round that an agent's schedule has reached, so that a peer that is ahead can wait.
//!
//! 1. The schedule enters one round after another, and names the sources that it expects.
//! 2. A connection for a later round waits in [`Rounds::admit`].
//! 3. A connection for a round that is over is refused.
//! 4. The schedule leaves a round when every expected source has finished, or has not started in time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::watch;
use tracing::info;

use crate::error::RoundError;

/// Largest number of sources that are remembered as having left before their round.
const MAX_GONE: usize = 10_000;

/// The rounds of a schedule, and who may enter them.
#[derive(Debug)]
pub struct Rounds(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    /// `None` while no schedule runs.
    round: Option<u32>,
    expected: BTreeMap<String, Visit>,
    gone: BTreeSet<(u32, String)>,
    forgotten: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Visit {
    came: bool,
    // Whether its pings have arrived: an admitted source may still be in the previous round.
    begun: bool,
    active: u32,
}

impl Visit {
    /// Marks the source as one that the round need not wait for.
    fn spare(&mut self) {
        (self.came, self.begun) = (true, true);
    }
}

/// A connection that takes part in the present round for as long as this value lives.
#[derive(Debug)]
pub struct Admission<'a> {
    rounds: &'a Rounds,
    round: u32,
    source: String,
}

impl Default for Rounds {
    fn default() -> Self {
        Self(watch::Sender::new(State::default()))
    }
}

impl Rounds {
    /// Opens a round for the given sources and closes the previous one.
    pub fn enter(&self, round: u32, sources: &[String]) {
        self.0.send_modify(|state| {
            state.round = Some(round);
            let visit = |source: &String| {
                let mut visit = Visit::default();
                if state.forgotten.contains(source) || state.gone.contains(&(round, source.clone())) {
                    visit.spare();
                }
                (source.clone(), visit)
            };
            state.expected = sources.iter().map(visit).collect();
        });
    }

    /// Ends the schedule: later connections wait for the next schedule.
    pub fn leave(&self) {
        self.0.send_modify(|state| {
            let forgotten = std::mem::take(&mut state.forgotten);
            *state = State {
                forgotten,
                ..State::default()
            };
        });
    }

    /// Waits until the round of a connection from `source` is open, and joins it.
    ///
    /// # Errors
    /// If the round is over or does not expect this source.
    pub async fn admit(&self, round: u32, source: &str) -> Result<Admission<'_>, RoundError> {
        let mut changes = self.0.subscribe();
        loop {
            let mut verdict = None;
            self.0.send_if_modified(|state| {
                verdict = state.verdict(round, source);
                verdict == Some(Ok(()))
            });
            match verdict {
                Some(Ok(())) => {
                    return Ok(Admission {
                        rounds: self,
                        round,
                        source: source.to_owned(),
                    });
                }
                Some(Err(error)) => return Err(error),
                // The sender lives as long as `self`.
                None => drop(changes.changed().await),
            }
        }
    }

    /// Records that `source` waited for `round` and gave up, so that the round need not wait for it. Ignored while no
    /// schedule runs: the source may have meant the previous schedule.
    pub fn gave_up(&self, round: u32, source: &str) {
        self.0.send_modify(|state| match state.round {
            Some(now) if now == round => {
                if let Some(visit) = state.expected.get_mut(source) {
                    visit.spare();
                }
            }
            Some(now) if now < round && state.gone.len() < MAX_GONE => {
                state.gone.insert((round, source.to_owned()));
            }
            _ => {}
        });
    }

    /// Whether the present round still waits for `source` to start or to finish.
    pub fn awaits(&self, source: &str) -> bool {
        let state = self.0.borrow();
        state
            .expected
            .get(source)
            .is_some_and(|visit| !visit.came || visit.active > 0)
    }

    /// Stops waiting for `source`, in this schedule and in later ones.
    pub fn forget(&self, source: &str) {
        self.0.send_modify(|state| {
            state.forgotten.insert(source.to_owned());
            if let Some(visit) = state.expected.get_mut(source) {
                visit.spare();
            }
        });
    }

    /// Waits for `source` again, from the next round on.
    pub fn expect_again(&self, source: &str) {
        self.0.send_modify(|state| {
            state.forgotten.remove(source);
        });
    }

    /// Records that the work of `source` begins.
    pub fn begun(&self, round: u32, source: &str) {
        self.0.send_if_modified(|state| {
            let visit = state.expected.get_mut(source).filter(|_| state.round == Some(round));
            visit.is_some_and(|visit| !std::mem::replace(&mut visit.begun, true))
        });
    }

    /// Waits until `round` is over.
    pub async fn left(&self, round: u32) {
        let mut changes = self.0.subscribe();
        let _ = changes.wait_for(|state| state.round != Some(round)).await;
    }

    /// Waits until every source of the round has finished. Sources that have not begun get at most `wait`.
    pub async fn received(&self, wait: Duration) {
        let mut changes = self.0.subscribe();
        let here = |visit: &Visit| visit.begun || (visit.came && visit.active == 0);
        let all_came = changes.wait_for(|state| state.expected.values().all(here));
        if tokio::time::timeout(wait, all_came).await.is_err() {
            info!("not every peer joined the round");
        }
        // Sources that have begun have deadlines of their own.
        let _ = changes
            .wait_for(|state| state.expected.values().all(|visit| visit.active == 0 || !visit.begun))
            .await;
    }
}

impl State {
    fn verdict(&mut self, round: u32, source: &str) -> Option<Result<(), RoundError>> {
        match self.round {
            Some(now) if now > round => Some(Err(RoundError::Over(round))),
            Some(now) if now == round => Some(match self.expected.get_mut(source) {
                None => Err(RoundError::NotExpected(round)),
                Some(visit) => {
                    visit.came = true;
                    visit.active += 1;
                    Ok(())
                }
            }),
            _ => None,
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.rounds.0.send_modify(|state| {
            if state.round != Some(self.round) {
                return;
            }
            if let Some(visit) = state.expected.get_mut(&self.source) {
                visit.active = visit.active.saturating_sub(1);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    const LONG: Duration = Duration::from_secs(600);

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Whether the future is still pending after one poll.
    async fn waits(work: impl Future) -> bool {
        let mut work = pin!(work);
        poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn a_source_ahead_of_the_schedule_waits() {
        let rounds = Rounds::default();
        assert!(waits(rounds.admit(1, "a")).await);
        rounds.enter(0, &names(&["b"]));
        let mut ahead = Box::pin(rounds.admit(1, "a"));
        assert!(waits(&mut ahead).await);
        rounds.enter(1, &names(&["a"]));
        ahead.await.unwrap();
    }

    #[tokio::test]
    async fn strangers_and_latecomers_are_told() {
        let rounds = Rounds::default();
        rounds.enter(3, &names(&["a"]));
        assert_eq!(rounds.admit(3, "b").await.unwrap_err(), RoundError::NotExpected(3));
        assert_eq!(rounds.admit(2, "a").await.unwrap_err(), RoundError::Over(2));
    }

    #[tokio::test]
    async fn a_round_ends_when_all_have_come_and_gone() {
        let rounds = Rounds::default();
        rounds.enter(0, &names(&["a", "b"]));
        let first = rounds.admit(0, "a").await.unwrap();
        let second = rounds.admit(0, "b").await.unwrap();
        let mut received = Box::pin(rounds.received(LONG));
        drop(first);
        assert!(waits(&mut received).await);
        drop(second);
        received.await;
    }

    #[tokio::test]
    async fn a_source_that_is_let_in_and_does_not_begin_is_given_up() {
        let rounds = Rounds::default();
        rounds.enter(0, &names(&["a"]));
        let _slow = rounds.admit(0, "a").await.unwrap();
        rounds.received(Duration::from_millis(1)).await;
        let mut left = Box::pin(rounds.left(0));
        assert!(waits(&mut left).await);
        rounds.enter(1, &names(&["a"]));
        left.await;
        let busy = rounds.admit(1, "a").await.unwrap();
        rounds.begun(1, "a");
        let mut received = Box::pin(rounds.received(Duration::from_millis(1)));
        assert!(waits(&mut received).await);
        drop(busy);
        received.await;
    }

    #[tokio::test]
    async fn an_absent_source_is_given_up() {
        let rounds = Rounds::default();
        rounds.enter(0, &names(&["a"]));
        rounds.received(Duration::from_millis(1)).await;
        rounds.enter(1, &names(&[]));
        rounds.received(LONG).await;
    }

    #[tokio::test]
    async fn a_forgotten_source_is_not_waited_for_in_any_round() {
        let rounds = Rounds::default();
        rounds.enter(0, &names(&["a"]));
        let mut received = Box::pin(rounds.received(LONG));
        assert!(waits(&mut received).await);
        rounds.forget("a");
        received.await;
        rounds.leave();
        rounds.enter(0, &names(&["a"]));
        rounds.received(LONG).await;
    }

    #[tokio::test]
    async fn a_source_that_gave_up_is_not_waited_for() {
        let rounds = Rounds::default();
        rounds.enter(0, &names(&["a"]));
        rounds.gave_up(0, "a");
        rounds.received(LONG).await;
        rounds.gave_up(4, "b");
        rounds.enter(4, &names(&["b"]));
        rounds.received(LONG).await;
        rounds.leave();
        assert!(waits(rounds.admit(4, "b")).await);
        rounds.gave_up(0, "b");
        rounds.enter(0, &names(&["b"]));
        assert!(waits(rounds.received(LONG)).await);
    }
}
