//! Messages on their way, and the connections that they take.

use std::collections::{HashMap, VecDeque};

use crate::matching::{Envelope, Ticket};
use crate::outcome::Split;

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// All bytes are on the way: the receiver needs no permit.
    Eager,
    /// The announcement is on the way, or waits for a receive.
    Announced,
    /// The receive is known, and the permit on its way, or waits for a call of one of both ranks.
    Matched,
    /// Pieces of the rest are on the way. The sender hands the next one to its socket inside MPI.
    Rest,
}

/// A message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) envelope: Envelope,
    pub(crate) target: u32,
    pub(crate) bytes: u64,
    pub(crate) stage: Stage,
    /// Bytes that the sender has not yet handed to its socket.
    pub(crate) left_bytes: u64,
    /// Bytes of the piece on the wire that follow those which the hosts' token buckets let pass.
    pub(crate) behind_bytes: u64,
    /// The send's request, until it completes.
    pub(crate) sender: Option<Ticket>,
    /// The receive, once it is known.
    pub(crate) receiver: Option<Ticket>,
    /// What led to the message being where it is.
    pub(crate) path: Split,
}

/// All messages that are not yet received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    slots: Vec<Message>,
    free: Vec<u32>,
}

impl Messages {
    pub(crate) fn add(&mut self, message: Message) -> u32 {
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = message;
            return number;
        }
        self.slots.push(message);
        self.slots.len() as u32 - 1
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(crate) fn at(&mut self, number: u32) -> &mut Message {
        &mut self.slots[number as usize]
    }
}

/// One direction between two ranks.
#[derive(Clone, Debug, Default)]
struct Connection {
    busy: bool,
    waiting: VecDeque<(u32, u64)>,
}

/// The connections between ranks. Each carries one piece after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    by_pair: HashMap<(u32, u32), Connection>,
}

impl Connections {
    /// Hands over a piece of a message. Returns whether it may start now; else it waits its turn.
    pub(crate) fn take(&mut self, pair: (u32, u32), message: u32, bytes: u64) -> bool {
        let connection = self.by_pair.entry(pair).or_default();
        if connection.busy {
            connection.waiting.push_back((message, bytes));
            return false;
        }
        connection.busy = true;
        true
    }

    /// Ends a piece. Returns the message and the bytes of the next one.
    pub(crate) fn next(&mut self, pair: (u32, u32)) -> Option<(u32, u64)> {
        let connection = self.by_pair.get_mut(&pair)?;
        let next = connection.waiting.pop_front();
        connection.busy = next.is_some();
        next
    }
}
