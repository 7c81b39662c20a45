//! Cornets over a simulated network of racks with slow lines between them: tracker, receivers and senders with max-min
//! fair shares of the links, but without sockets or clocks.

use std::collections::{BTreeMap, VecDeque};

use gavotte_net::{BitsPerSec, Bytes, Group, Host, Network, NetworkParts, Seconds, Sharing, max_min};

use gavotte_swarm::broadcast::blocks::Blocks;
use gavotte_swarm::broadcast::conductor::Conductor;
use gavotte_swarm::broadcast::cornet::{Picker, Rotation, SLOTS};
use gavotte_swarm::broadcast::ground::Ground;
use gavotte_swarm::broadcast::layout::Layout;
use gavotte_swarm::broadcast::mechanism::Mechanism;

const STEP_S: f64 = 0.01;
/// Steps between an agent's reports; the next constant has the steps between the controller's answers.
const REPORT_STEPS: usize = 20;
const CONDUCT_STEPS: usize = 10;
/// Steps that a receiver waits when it has no block to request.
const PAUSE_STEPS: usize = 10;
/// Steps after which a peer may end a conversation.
const CHAT_STEPS: usize = 50;
const RACKS: usize = 3;
const RECEIVERS: usize = 30;
const BYTES: u64 = 2_000_000;
const RATE_BPS: f64 = 4.8e6;

/// The source is in the first rack.
fn rack(host: usize) -> usize {
    host.saturating_sub(1) % RACKS
}

fn network() -> Network {
    let rate = BitsPerSec::new(RATE_BPS).unwrap();
    let host = |host: usize| Host {
        name: format!("h{host}"),
        machine: host,
        egress: rate,
        ingress: rate,
    };
    let group = |at: usize| Group {
        name: format!("rack{at}"),
        members: (0..=RECEIVERS).filter(|&host| rack(host) == at).collect(),
        up: rate,
        down: rate,
        parent: None,
    };
    Network::new(NetworkParts {
        hosts: (0..=RECEIVERS).map(host).collect(),
        rate_bps: vec![f64::NAN; (RECEIVERS + 1) * (RECEIVERS + 1)],
        latency_s: vec![],
        groups: (0..RACKS).map(group).collect(),
        sharing: Sharing::Groups,
    })
    .unwrap()
}

/// A receiver's conversation with a peer.
struct Chat {
    receiver: usize,
    peer: usize,
    block: u32,
    left_bytes: f64,
    /// The step since which the peer serves it; `None` while it waits.
    since: Option<usize>,
}

struct World {
    network: Network,
    conductor: Conductor,
    layout: Layout,
    pickers: Vec<Picker>,
    have: Vec<Blocks>,
    rotation: Rotation,
    chats: Vec<Chat>,
    waiting: Vec<VecDeque<(usize, usize)>>,
    /// By receiver: the step at which each free slot looks for a peer again.
    free: Vec<Vec<usize>>,
    /// Bytes that have left each rack.
    left_rack: [f64; RACKS],
    kept_s: Vec<f64>,
}

impl World {
    fn new(mechanism: Mechanism, partitions: Vec<usize>, seed: u64) -> Self {
        let network = network();
        let layout = Layout::new(BYTES, Layout::block_bytes_for(BYTES)).unwrap();
        let ground = Ground::new(&network, 0, &(1..=RECEIVERS).collect::<Vec<_>>()).unwrap();
        let mut conductor = Conductor::new(ground, layout, mechanism, 1 << 14, Seconds(10.0), partitions, seed);
        let none = Blocks::none(layout.count());
        let mut have = vec![none; RECEIVERS + 1];
        have[0] = Blocks::all(layout.count());
        for (host, have) in have.iter().enumerate() {
            conductor.opened(host, have.clone(), Bytes(0), Seconds(0.0));
        }
        Self {
            network,
            conductor,
            layout,
            pickers: (0..=RECEIVERS)
                .map(|host| Picker::new(seed * 1000 + host as u64))
                .collect(),
            have,
            rotation: Rotation::default(),
            chats: Vec::new(),
            waiting: vec![VecDeque::new(); RECEIVERS + 1],
            free: vec![vec![0; SLOTS]; RECEIVERS + 1],
            left_rack: [0.0; RACKS],
            kept_s: vec![f64::INFINITY; RECEIVERS + 1],
        }
    }

    /// Runs to the end; returns the seconds until the last receiver has the object.
    fn run(&mut self) -> f64 {
        for step in 0.. {
            assert!(step < 10_000, "no end");
            let now_s = step as f64 * STEP_S;
            for host in 0..=RECEIVERS {
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
                    self.pickers[host].set_peers(named.collect::<BTreeMap<_, _>>());
                }
            }
            (1..=RECEIVERS).for_each(|host| self.look(host, step));
            self.serve(step);
            self.flow(step);
            for host in 1..=RECEIVERS {
                if self.have[host].is_full() && self.kept_s[host].is_infinite() {
                    self.kept_s[host] = now_s;
                    self.conductor.kept(host);
                }
            }
            if self.conductor.is_over() {
                return now_s;
            }
        }
        unreachable!()
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
            let asked = peer.and_then(|peer| {
                let block = self.pickers[host].block(&peer, &self.have[host]);
                if block.is_none() {
                    self.pickers[host].end(&peer);
                }
                block.map(|block| (peer.parse().unwrap(), block))
            });
            let Some((peer, block)) = asked else {
                self.free[host].push(step + PAUSE_STEPS);
                continue;
            };
            let block = self.ask(host, peer, block);
            self.chats.push(Chat {
                receiver: host,
                peer,
                block,
                left_bytes: f64::from(self.layout.length(block)),
                since: None,
            });
            self.waiting[peer].push_back((host, peer));
        }
    }

    /// The block that a peer sends on a request.
    fn ask(&mut self, host: usize, peer: usize, block: u32) -> u32 {
        if peer != 0 {
            return block;
        }
        let block = self.rotation.instead_of(block, self.layout.count());
        self.pickers[host].substituted("0", block);
        block
    }

    fn serve(&mut self, step: usize) {
        for peer in 0..=RECEIVERS {
            let served = |chats: &[Chat]| {
                chats
                    .iter()
                    .filter(|chat| chat.peer == peer && chat.since.is_some())
                    .count()
            };
            while served(&self.chats) < SLOTS
                && let Some((receiver, _)) = self.waiting[peer].pop_front()
            {
                let chat = self
                    .chats
                    .iter_mut()
                    .find(|chat| chat.peer == peer && chat.receiver == receiver);
                chat.unwrap().since = Some(step);
            }
        }
    }

    fn flow(&mut self, step: usize) {
        let network = &self.network;
        let rates: Vec<f64> = (0..network.link_count())
            .map(|at| network.rate(network.link(at)).bytes_per_s())
            .collect();
        let ways: Vec<Vec<u32>> = self
            .chats
            .iter()
            .filter(|chat| chat.since.is_some())
            .map(|chat| {
                let mut way = Vec::new();
                network.for_each_link(chat.peer, chat.receiver, |link| {
                    way.push(network.link_index(link) as u32);
                });
                way
            })
            .collect();
        let flows: Vec<_> = ways.iter().map(|way| (way.as_slice(), 1.0)).collect();
        let mut held = max_min(&rates, &flows).into_iter();
        let mut done = Vec::new();
        for (at, chat) in self.chats.iter_mut().enumerate() {
            if chat.since.is_none() {
                continue;
            }
            let moved = held.next().flatten().map_or(0.0, |held| held.level) * STEP_S;
            chat.left_bytes -= moved;
            if rack(chat.peer) != rack(chat.receiver) {
                self.left_rack[rack(chat.peer)] += moved;
            }
            if chat.left_bytes <= 0.0 {
                done.push(at);
            }
        }
        for at in done.into_iter().rev() {
            let Chat {
                receiver,
                peer,
                block,
                since,
                left_bytes,
            } = self.chats.remove(at);
            self.have[receiver].insert(block);
            let turn_over = since.is_some_and(|since| step > since + CHAT_STEPS) && !self.waiting[peer].is_empty();
            let next = self.pickers[receiver].block(&peer.to_string(), &self.have[receiver]);
            if let Some(block) = next.filter(|_| !turn_over) {
                let block = self.ask(receiver, peer, block);
                self.chats.push(Chat {
                    receiver,
                    peer,
                    block,
                    // Bytes beyond this block's end belong to the next.
                    left_bytes: left_bytes + f64::from(self.layout.length(block)),
                    since,
                });
            } else {
                self.pickers[receiver].end(&peer.to_string());
                self.free[receiver].push(step + if turn_over { PAUSE_STEPS } else { 0 });
            }
        }
    }
}

#[test]
fn racks_that_are_kept_to_halve_the_time() {
    let hosts = 0..=RECEIVERS;
    let bound_s = 8.0 * BYTES as f64 / RATE_BPS;
    let (mut plain_s, mut kept_s) = (0.0, 0.0);
    for seed in 1..=5 {
        plain_s += World::new(Mechanism::Cornet, vec![0; RECEIVERS + 1], seed).run() / 5.0;
        let mut world = World::new(Mechanism::Topology, hosts.clone().map(rack).collect(), seed);
        kept_s += world.run() / 5.0;
        // Of two racks that pass blocks on to each other, each gets half of them from the first rack, so no line
        // carries a block twice.
        for left in world.left_rack {
            assert!(left <= 1.05 * BYTES as f64, "{:?}", world.left_rack);
        }
    }
    assert!(
        kept_s <= 0.5 * plain_s,
        "{:.2} and {:.2} times the bound",
        kept_s / bound_s,
        plain_s / bound_s
    );
}
