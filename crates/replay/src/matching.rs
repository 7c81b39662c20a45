//! Which receive takes which message: MPI's order for each sender, tag and communicator.

/// A request of an actor. Numbers are used again, serials are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) actor: u32,
    pub(crate) request: u32,
    pub(crate) serial: u64,
}

/// What a receive and a message must have in common. Messages of collectives have contexts of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) source: u32,
    pub(crate) tag: i32,
    pub(crate) context: u32,
}

/// A receive that waits for its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub(crate) envelope: Envelope,
    pub(crate) ticket: Ticket,
}

/// What one rank has posted, and what has arrived too early.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mailbox {
    posted: Vec<Posted>,
    unexpected: Vec<(Envelope, u32)>,
}

impl Mailbox {
    /// Posts a receive. Returns the message that it takes, if one has arrived.
    pub(crate) fn post(&mut self, posted: Posted) -> Option<u32> {
        let place = self
            .unexpected
            .iter()
            .position(|(envelope, _)| *envelope == posted.envelope);
        if place.is_none() {
            self.posted.push(posted);
        }
        place.map(|place| self.unexpected.remove(place).1)
    }

    /// Delivers a message, or its announcement. Returns the receive that takes it, if one is posted.
    pub(crate) fn deliver(&mut self, envelope: Envelope, message: u32) -> Option<Posted> {
        let place = self.posted.iter().position(|posted| posted.envelope == envelope);
        if place.is_none() {
            self.unexpected.push((envelope, message));
        }
        place.map(|place| self.posted.remove(place))
    }

    /// Forgets a receive that will match nothing.
    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        self.posted.retain(|posted| posted.ticket != ticket);
    }

    /// The receive of a request, if it still waits.
    pub(crate) fn waiting(&self, ticket: Ticket) -> Option<&Posted> {
        self.posted.iter().find(|posted| posted.ticket == ticket)
    }
}
