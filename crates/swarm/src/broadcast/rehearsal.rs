//! A Cornet that is played, without sockets or clocks: tracker, receivers and senders with max-min fair shares of the
//! links. Its time is the prediction of the mechanism, since peers and blocks are random and no formula was near.

use std::collections::{BTreeMap, VecDeque};

use gavotte_net::{Bytes, Seconds, max_min};

use super::blocks::Blocks;
use super::conductor::Conductor;
use super::cornet::{Picker, Rotation, SLOTS};
use super::ground::Ground;
use super::layout::Layout;
use super::mechanism::Mechanism;

/// Steps between an agent's reports; the next constant has the steps between the controller's answers.
const REPORT_STEPS: usize = 20;
const CONDUCT_STEPS: usize = 10;
/// Steps that a receiver waits when it has no block to request.
const PAUSE_STEPS: usize = 10;
/// Steps after which a peer may end a conversation.
const CHAT_STEPS: usize = 50;
/// Time of a step, in seconds.
pub const STEP_S: f64 = 0.01;
/// A play ends after this many steps.
const MOST_STEPS: usize = 20_000;

/// A receiver's conversation with a peer.
struct Chat {
    receiver: usize,
    peer: usize,
    block: u32,
    left_bytes: f64,
    /// The step since which the peer serves it; `None` while it waits.
    since: Option<usize>,
    /// The links between the two.
    way: Vec<u32>,
}

/// A Cornet in which every host has opened its copy and no block was sent yet.
pub struct Rehearsal {
    ground: Ground,
    conductor: Conductor,
    layout: Layout,
    /// Rates of the links that some conversation has crossed, in bytes per second, and their numbers by index in the
    /// network.
    rates: Vec<f64>,
    numbers: BTreeMap<usize, u32>,
    pickers: Vec<Picker>,
    have: Vec<Blocks>,
    rotation: Rotation,
    chats: Vec<Chat>,
    waiting: Vec<VecDeque<usize>>,
    /// By receiver: the step at which each free slot looks for a peer again.
    free: Vec<Vec<usize>>,
    /// Bytes that have crossed each link, by its index in the network.
    crossed: BTreeMap<usize, f64>,
    kept_s: Vec<f64>,
}

impl Rehearsal {
    /// A Cornet that keeps to partitions, by host; none = plain. The same seed gives the same time.
    pub fn new(ground: &Ground, layout: Layout, mechanism: Mechanism, partitions: Vec<usize>, seed: u64) -> Self {
        let hosts = ground.network().hosts().len();
        let endless = Seconds(f64::INFINITY);
        let mut conductor = Conductor::new(ground.clone(), layout, mechanism, 1 << 14, endless, partitions, seed);
        let mut have = vec![Blocks::none(layout.count()); hosts];
        have[ground.source()] = Blocks::all(layout.count());
        for host in ground.members() {
            conductor.opened(host, have[host].clone(), Bytes(0), Seconds(0.0));
        }
        Self {
            ground: ground.clone(),
            conductor,
            layout,
            rates: Vec::new(),
            numbers: BTreeMap::new(),
            pickers: (0..hosts).map(|host| Picker::new(seed * 1000 + host as u64)).collect(),
            have,
            rotation: Rotation::default(),
            chats: Vec::new(),
            waiting: vec![VecDeque::new(); hosts],
            free: vec![vec![0; SLOTS]; hosts],
            crossed: BTreeMap::new(),
            kept_s: vec![f64::INFINITY; hosts],
        }
    }

    /// Plays to the end; returns the seconds until the last receiver has the object, infinite if that takes too long.
    pub fn run(&mut self) -> f64 {
        let receivers = self.ground.receivers().to_vec();
        for step in 0..MOST_STEPS {
            let now_s = step as f64 * STEP_S;
            for host in self.ground.members() {
                // Hosts report at different steps.
                if (step + host).is_multiple_of(REPORT_STEPS) {
                    let bytes = u64::from(self.have[host].len()) * u64::from(self.layout.block_bytes());
                    self.conductor
                        .progress(host, self.have[host].clone(), Bytes(bytes), Seconds(now_s));
                }
            }
            if step.is_multiple_of(CONDUCT_STEPS) {
                for (host, peers) in self.conductor.answers(Seconds(now_s)) {
                    let named = peers.into_iter().map(|(peer, blocks)| (peer.to_string(), blocks));
                    self.pickers[host].set_peers(named.collect());
                }
            }
            for &host in &receivers {
                self.look(host, step);
            }
            self.serve(step);
            self.flow(step);
            for &host in &receivers {
                if self.have[host].is_full() && self.kept_s[host].is_infinite() {
                    self.kept_s[host] = now_s;
                    self.conductor.kept(host);
                }
            }
            if self.conductor.is_over() {
                return now_s;
            }
        }
        f64::INFINITY
    }

    /// Bytes that have crossed a link, by its index in the network.
    pub fn crossed_bytes(&self, link: usize) -> f64 {
        self.crossed.get(&link).copied().unwrap_or(0.0)
    }

    /// Assigns each free slot of a receiver a peer, and puts the slot into the peer's queue with the block that it
    /// requests.
    fn look(&mut self, host: usize, step: usize) {
        for at in (0..self.free[host].len()).rev() {
            if self.free[host][at] > step || self.have[host].is_full() {
                continue;
            }
            self.free[host].remove(at);
            let peer = self.pickers[host].peer(&self.have[host]);
            let requested = peer.and_then(|peer| {
                let block = self.pickers[host].block(&peer, &self.have[host]);
                if block.is_none() {
                    self.pickers[host].end(&peer);
                }
                block.and_then(|block| Some((peer.parse().ok()?, block)))
            });
            let Some((peer, block)) = requested else {
                self.free[host].push(step + PAUSE_STEPS);
                continue;
            };
            let block = self.ask(host, peer, block);
            let way = self.way(peer, host);
            self.chats.push(Chat {
                receiver: host,
                peer,
                block,
                left_bytes: f64::from(self.layout.length(block)),
                since: None,
                way,
            });
            self.waiting[peer].push_back(host);
        }
    }

    /// The block that a peer sends on a request.
    fn ask(&mut self, host: usize, peer: usize, block: u32) -> u32 {
        if peer != self.ground.source() {
            return block;
        }
        let block = self.rotation.instead_of(block, self.layout.count());
        self.pickers[host].substituted(&peer.to_string(), block);
        block
    }

    /// The links from a peer to a receiver that have a limit.
    fn way(&mut self, peer: usize, host: usize) -> Vec<u32> {
        let (network, mut way) = (self.ground.network(), Vec::new());
        network.for_each_link(peer, host, |link| {
            if network.rate(link).is_limited() {
                let number = self.numbers.entry(network.link_index(link)).or_insert_with(|| {
                    self.rates.push(network.rate(link).bytes_per_s());
                    self.rates.len() as u32 - 1
                });
                way.push(*number);
            }
        });
        way
    }

    /// Serves waiting chats while slots are free.
    fn serve(&mut self, step: usize) {
        let mut served = vec![0; self.waiting.len()];
        for chat in self.chats.iter().filter(|chat| chat.since.is_some()) {
            served[chat.peer] += 1;
        }
        for (peer, served) in served.iter_mut().enumerate() {
            while *served < SLOTS
                && let Some(receiver) = self.waiting[peer].pop_front()
            {
                let waits = |chat: &&mut Chat| chat.peer == peer && chat.receiver == receiver && chat.since.is_none();
                if let Some(chat) = self.chats.iter_mut().find(waits) {
                    chat.since = Some(step);
                    *served += 1;
                }
            }
        }
    }

    fn flow(&mut self, step: usize) {
        let active = self.chats.iter().filter(|chat| chat.since.is_some());
        let flows: Vec<_> = active.map(|chat| (chat.way.as_slice(), 1.0)).collect();
        let mut held = max_min(&self.rates, &flows).into_iter();
        let mut done = Vec::new();
        let mut moved = vec![0.0; self.rates.len()];
        for (at, chat) in self.chats.iter_mut().enumerate() {
            if chat.since.is_none() {
                continue;
            }
            let level = held.next().flatten().map_or(f64::INFINITY, |held| held.level);
            let bytes = (level * STEP_S).min(chat.left_bytes.max(f64::from(self.layout.block_bytes())));
            chat.left_bytes -= bytes;
            chat.way.iter().for_each(|&link| moved[link as usize] += bytes);
            if chat.left_bytes <= 0.0 {
                done.push(at);
            }
        }
        for (&link, &number) in &self.numbers {
            *self.crossed.entry(link).or_default() += moved[number as usize];
        }
        for at in done.into_iter().rev() {
            let chat = self.chats.remove(at);
            self.arrived(chat, step);
        }
    }

    /// Adds a block to its receiver, which requests the next, unless the peer ends the conversation.
    fn arrived(&mut self, mut chat: Chat, step: usize) {
        let (receiver, peer) = (chat.receiver, chat.peer);
        self.have[receiver].insert(chat.block);
        let turn_over = chat.since.is_some_and(|since| step > since + CHAT_STEPS) && !self.waiting[peer].is_empty();
        let next = self.pickers[receiver].block(&peer.to_string(), &self.have[receiver]);
        if let Some(block) = next.filter(|_| !turn_over) {
            chat.block = self.ask(receiver, peer, block);
            // Bytes beyond the last block's end belong to the next.
            chat.left_bytes += f64::from(self.layout.length(chat.block));
            self.chats.push(chat);
        } else {
            self.pickers[receiver].end(&peer.to_string());
            self.free[receiver].push(step + if turn_over { PAUSE_STEPS } else { 0 });
        }
    }
}
