//! Starts and ends flows, and changes their holders.

use gavotte_net::Volume;

use super::flow::{Finished, Flow, NONE, Slot};
use super::{Index, Sharing, TOGETHER};

impl Sharing {
    /// Starts a flow over the links of `path`: at least one link, each of them once. Takes effect with
    /// [`Sharing::settle`].
    pub(crate) fn start(&mut self, path: &[Index], weight: f64, Volume(bytes): Volume, owner: u32) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.grow(self.flows.len() + 1);
            let path = Vec::with_capacity(path.len());
            self.flows.push(Flow {
                path,
                weight,
                holder: NONE,
                bytes,
                sent: 0.0,
                mark: 0.0,
                owner,
            });
            self.flows.len() as Slot - 1
        });
        let flow = &mut self.flows[slot as usize];
        flow.path.clear();
        flow.path.extend_from_slice(path);
        (flow.weight, flow.bytes, flow.sent, flow.owner) = (weight, bytes, 0.0, owner);

        let offers = path.iter().map(|&link| (self.offer(link, weight), link));
        let (level, holder) = offers.fold(
            (f64::INFINITY, NONE),
            |least, offer| if offer < least { offer } else { least },
        );
        if self.weight[holder as usize] == 0.0 {
            self.level[holder as usize] = level;
        }
        self.attach(slot, holder);
        self.queue_path(slot, level);
        slot
    }

    /// Ends a flow, finished or not. Takes effect with [`Sharing::settle`].
    pub(crate) fn stop(&mut self, slot: Slot) {
        let level = self.level[self.flows[slot as usize].holder as usize];
        self.detach(slot);
        self.free(slot, level);
    }

    /// Frees the slot of a detached flow, and schedules the evaluation of the links that it leaves.
    fn free(&mut self, slot: Slot, level: f64) {
        self.queue_path(slot, level);
        let flow = &mut self.flows[slot as usize];
        flow.holder = NONE;
        for &link in &flow.path {
            self.carried[link as usize] += flow.sent;
        }
        self.free.push(slot);
    }

    /// Bytes that have crossed each link so far.
    pub(crate) fn carried(&self) -> Vec<f64> {
        let mut carried = self.carried.clone();
        for flow in self.flows.iter().filter(|flow| flow.is_active()) {
            let (link, level) = (&self.links[flow.holder as usize], self.level[flow.holder as usize]);
            let clock = link.clock + level * (self.now_s - link.at_s);
            let sent = (flow.sent + flow.weight * (clock - flow.mark)).clamp(0.0, flow.bytes);
            flow.path.iter().for_each(|&link| carried[link as usize] += sent);
        }
        carried
    }

    /// Rate of an active flow in bytes per second, after [`Sharing::settle`].
    pub(crate) fn flow_rate(&self, slot: Slot) -> f64 {
        let flow = &self.flows[slot as usize];
        flow.weight * self.level[flow.holder as usize]
    }

    /// Ends the flows that have sent all their bytes. The rest takes effect with [`Sharing::settle`].
    pub(crate) fn finish(&mut self, finished: &mut Vec<Finished>) {
        let span_s = self.now_s * TOGETHER;
        while let Some((time_s, link)) = self.calendar.first()
            && time_s <= self.now_s + span_s
        {
            self.calendar.remove(link, &mut self.calendar_places);
            self.sync(link);
            // The flow that the calendar names ends now in spite of rounding errors, since otherwise time would not
            // advance.
            let named = self.links[link as usize].held.first().map_or(0.0, |(end, _)| end);
            let last = named.max(self.links[link as usize].clock + self.level[link as usize] * span_s);
            while let Some((end, slot)) = self.links[link as usize].held.first()
                && end <= last
            {
                finished.push(Finished {
                    owner: self.flows[slot as usize].owner,
                    slot,
                    holder: link,
                });
                let level = self.level[link as usize];
                self.detach(slot);
                self.flows[slot as usize].sent = self.flows[slot as usize].bytes;
                self.free(slot, level);
            }
        }
    }

    /// Moves a flow to another holder on its path.
    pub(super) fn rehome(&mut self, slot: Slot, holder: Index) {
        self.detach(slot);
        self.attach(slot, holder);
        self.queue_path(slot, self.level[holder as usize]);
    }

    /// Roughly the level that one more flow of `weight` would get on `link`.
    fn offer(&self, link: Index, weight: f64) -> f64 {
        let at = link as usize;
        let own = self.weight[at];
        if own > 0.0 {
            return self.level[at] * own / (own + weight);
        }
        let (mut used, mut others) = (0.0, 0.0);
        for share in self.crossings.shares(link) {
            used += share.weight * self.level[share.holder as usize];
            others += share.weight;
        }
        ((self.rate[at] - used) / weight).max(self.rate[at] / (others + weight))
    }

    pub(super) fn attach(&mut self, slot: Slot, holder: Index) {
        let at = holder as usize;
        if self.links[at].held.is_empty() {
            self.crossings.wake(holder);
            self.links[at].busy_since_s = self.now_s;
            self.links[at].at_s = self.now_s;
            self.sum(holder);
        }
        self.sync(holder);
        let flow = &mut self.flows[slot as usize];
        flow.holder = holder;
        flow.mark = self.links[at].clock;
        let end = flow.mark + (flow.bytes - flow.sent).max(0.0) / flow.weight;
        self.links[at].held.set(end, slot, &mut self.places);
        self.weight[at] += flow.weight;
        for &link in flow.path.iter().filter(|&&link| link != holder) {
            self.crossings.add(link, holder, flow.weight);
            self.used[link as usize] += flow.weight * self.level[at];
            self.changes[link as usize] += 1;
            self.top[link as usize] = self.top[link as usize].max(self.level[at]);
        }
    }

    /// Removes a flow from its holder, and records the bytes that it sent.
    pub(super) fn detach(&mut self, slot: Slot) {
        let holder = self.flows[slot as usize].holder;
        let at = holder as usize;
        self.sync(holder);
        let flow = &mut self.flows[slot as usize];
        flow.sent = (flow.sent + flow.weight * (self.links[at].clock - flow.mark)).clamp(0.0, flow.bytes);
        for &link in flow.path.iter().filter(|&&link| link != holder) {
            self.crossings.subtract(link, holder, flow.weight);
            self.used[link as usize] -= flow.weight * self.level[at];
            self.changes[link as usize] += 1;
        }
        self.weight[at] -= flow.weight;
        self.links[at].held.remove(slot, &mut self.places);
        if self.links[at].held.is_empty() {
            self.rest(holder);
        }
    }

    /// Makes a link limit no flows any more.
    pub(super) fn rest(&mut self, link: Index) {
        let state = &mut self.links[link as usize];
        state.busy_s += self.now_s - state.busy_since_s;
        state.clock = 0.0;
        self.weight[link as usize] = 0.0;
        self.level[link as usize] = 0.0;
        self.crossings.sleep(link);
    }

    fn queue_path(&mut self, slot: Slot, level: f64) {
        for at in 0..self.flows[slot as usize].path.len() {
            let link = self.flows[slot as usize].path[at];
            self.queue(link, level);
        }
    }
}
