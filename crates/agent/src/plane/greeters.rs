//! Limits the number of connections that are not yet authenticated, so that idle ones cannot exclude others.
//!
//! 1. An authenticated connection does not count.
//! 2. If one address has too many connections, its oldest one is closed.
//! 3. If all addresses together have too many, the oldest connection of the address with the most is closed.
//!
//! A true peer authenticates within one round trip, so it is never the oldest of its address for long. Thus 1500 idle
//! connections from one address leave room for all other addresses, and for true peers at the same address.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Largest number of unauthenticated connections.
const MOST: usize = 1024;
/// Largest number per address: four concurrent replays connect 64 transfers each.
const MOST_OF_ADDRESS: usize = 256;

/// The unauthenticated connections of one data port.
#[derive(Clone, Debug, Default)]
pub(super) struct Greeters(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    count: usize,
    /// By address, oldest first; never empty.
    waiting: HashMap<IpAddr, VecDeque<(u64, oneshot::Sender<()>)>>,
}

/// One connection's place. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Greeting {
    greeters: Greeters,
    address: IpAddr,
    number: u64,
    /// Completes when the connection must be closed.
    pub(super) displaced: oneshot::Receiver<()>,
}

impl Greeters {
    /// Makes room for one more connection from `address`.
    pub(super) fn admit(&self, address: IpAddr) -> Greeting {
        let mut state = self.lock();
        if state
            .waiting
            .get(&address)
            .is_some_and(|own| own.len() >= MOST_OF_ADDRESS)
        {
            state.displace(address);
        } else if state.count >= MOST {
            let most = state.waiting.iter().max_by_key(|(_, waiting)| waiting.len());
            if let Some(greediest) = most.map(|(address, _)| *address) {
                state.displace(greediest);
            }
        }
        let number = state.next;
        state.next += 1;
        state.count += 1;
        let (displace, displaced) = oneshot::channel();
        state.waiting.entry(address).or_default().push_back((number, displace));
        Greeting {
            greeters: self.clone(),
            address,
            number,
            displaced,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The lock cannot be poisoned half-way through a change: no code panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn displace(&mut self, address: IpAddr) {
        let oldest = self.waiting.get(&address).and_then(|waiting| waiting.front());
        if let Some(number) = oldest.map(|(number, _)| *number) {
            // Dropping the sender notifies the receiver.
            self.remove(address, number);
        }
    }

    fn remove(&mut self, address: IpAddr, number: u64) {
        let Some(waiting) = self.waiting.get_mut(&address) else {
            return;
        };
        if let Ok(at) = waiting.binary_search_by_key(&number, |(number, _)| *number) {
            waiting.remove(at);
            self.count -= 1;
        }
        if waiting.is_empty() {
            self.waiting.remove(&address);
        }
    }
}

impl Drop for Greeting {
    fn drop(&mut self) {
        self.greeters.lock().remove(self.address, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn displaced(greeting: &mut Greeting) -> bool {
        greeting.displaced.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_oldest_of_an_address_goes_when_it_has_too_many() {
        let greeters = Greeters::default();
        let mut other = greeters.admit(address(2));
        let mut idle: Vec<_> = (0..1500).map(|_| greeters.admit(address(1))).collect();
        let gone = idle.iter_mut().map(displaced).filter(|gone| *gone).count();
        assert_eq!(gone, 1500 - MOST_OF_ADDRESS);
        assert!(!displaced(idle.last_mut().unwrap()) && !displaced(&mut other));
        drop(idle);
        drop(other);
        let state = greeters.lock();
        assert!(state.count == 0 && state.waiting.is_empty());
    }

    #[test]
    fn the_greediest_address_pays_when_the_port_is_full() {
        let greeters = Greeters::default();
        let mut few: Vec<_> = (10..110).map(|last| greeters.admit(address(last))).collect();
        let mut many: Vec<_> = (0..2000u32)
            .map(|number| greeters.admit(address((number % 8) as u8)))
            .collect();
        assert!(!few.iter_mut().any(displaced));
        let stay = many
            .iter_mut()
            .filter_map(|each| (!displaced(each)).then_some(()))
            .count();
        assert_eq!((stay, greeters.lock().count), (MOST - 100, MOST));
    }
}
