//! sFlow version 5: payload bytes between pairs of ends, from a sample of the packets.
//!
//! Each sample stands for a number of packets: its own rate, plus packets whose samples were lost in the network or
//! dropped by the agent. `sflow-parser` decodes datagrams; the sampled headers are read like those of a capture.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use sflow_parser::models::record_flows::HeaderProtocol;
use sflow_parser::models::{Address, FlowData, FlowRecord};
use sflow_parser::{SampleData, parse_datagram};

use crate::cells::Counter;
use crate::cells::{Cells, Numbers, Row, Sum};
use crate::ends::{Directory, End};
use crate::exports::kind_of;
use crate::intake::Intake;
use crate::interval::sampled_range;
use crate::records::Record;
use crate::segment::{LINK_ETHERNET, LINK_IP, LINK_MPLS, LINK_PPP, decode};
use crate::skipped::Skip;
use crate::tally::sockets;

/// A larger gap means that the agent restarted.
const MOST_GAP: u32 = 1 << 16;

/// Largest number of data sources whose losses are followed.
const MOST_SOURCES: usize = 1 << 16;

/// TCP over IP version 4 with the options that Linux sends, for samples without a header.
const TCP_HEADERS_BYTES: u64 = 20 + 32;
const UDP_HEADERS_BYTES: u64 = 20 + 8;
const IPV6_MORE_BYTES: u64 = 20;

/// Sampled payload: the total that it stands for, and its uncertainty.
#[derive(Clone, Copy, Debug, Default)]
struct Sampled {
    /// Sum of payload times rate.
    whole: f64,
    /// Sum of the squares of these products.
    squares: f64,
    /// Payload of the samples themselves.
    seen: f64,
}

impl Sum for Sampled {
    fn add(&mut self, other: &Self) {
        self.whole += other.whole;
        self.squares += other.squares;
        self.seen += other.seen;
    }
    fn bytes(&self) -> f64 {
        self.whole
    }
    fn range(&self, unit: f64) -> (f64, f64) {
        sampled_range(self.whole, self.squares, self.seen, unit)
    }
}

/// The meter that sampled. Agents without a configured address all report the same one (pmacct: that of the machine's name), so the
/// sender of the datagrams is part of it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Agent {
    address: Option<IpAddr>,
    sub: u32,
    from: IpAddr,
}

/// The direction in which an agent samples at its interfaces; a packet passes both.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Side {
    In,
    Out,
    Unknown,
}

#[derive(Debug, Default)]
struct Source {
    sequence: Option<u32>,
    drops: u32,
}

#[derive(Debug, Default)]
struct Loss {
    sequence: Option<u32>,
    datagrams: u64,
    samples: u64,
    lost: u64,
    dropped: u64,
}

/// The samples of sFlow agents.
#[derive(Debug)]
pub struct Samples {
    intake: Intake,
    cells: Cells<Sampled>,
    /// The sum over all pairs.
    pooled: Sampled,
    views: Numbers<(Agent, Side)>,
    agents: HashMap<Agent, Loss>,
    sources: HashMap<(Agent, u32, u32), Source>,
    addresses: HashMap<End, IpAddr>,
    taken: u64,
    counters: u64,
    frame_bytes: f64,
}

impl Samples {
    /// An empty collection.
    pub fn new(ends: Directory, every_s: Option<f64>) -> Self {
        Self {
            cells: Cells::new(&ends, every_s),
            intake: Intake::new(ends),
            pooled: Sampled::default(),
            views: Numbers::new(),
            agents: HashMap::new(),
            sources: HashMap::new(),
            addresses: HashMap::new(),
            taken: 0,
            counters: 0,
            frame_bytes: 0.0,
        }
    }

    /// Reads a datagram from an address. A datagram that is damaged or not sFlow version 5 is counted and skipped.
    pub fn datagram(&mut self, from: IpAddr, payload: &[u8], time_s: Option<f64>) {
        if !payload.starts_with(&[0, 0, 0, 5]) {
            self.intake.others.add(Skip::Datagram(kind_of(payload)));
            return;
        }
        self.intake.datagrams += 1;
        let datagram = match parse_datagram(payload) {
            Ok(datagram) => datagram,
            Err(error) => {
                self.intake.reject(&error);
                return;
            }
        };
        let address = match datagram.agent_address {
            Address::IPv4(address) => Some(IpAddr::from(address)),
            Address::IPv6(address) => Some(IpAddr::from(address).to_canonical()),
            Address::Unknown => None,
        };
        let agent = Agent {
            address,
            sub: datagram.sub_agent_id,
            from,
        };
        if self.agents.len() < MOST_SOURCES || self.agents.contains_key(&agent) {
            let loss = self.agents.entry(agent).or_default();
            loss.datagrams += gap(&mut loss.sequence, datagram.sequence_number);
        }
        for sample in datagram.samples {
            match sample.sample_data {
                SampleData::FlowSample(flow) => {
                    let source = (flow.source_id.source_type().into(), flow.source_id.index());
                    let side = side(source.1, flow.input.value(), flow.output.value());
                    self.lost(agent, source, flow.sequence_number, flow.drops);
                    self.flow(agent, side, flow.sampling_rate, &flow.flow_records, time_s);
                }
                SampleData::FlowSampleExpanded(flow) => {
                    let source = (flow.source_id.source_id_type, flow.source_id.source_id_index);
                    let side = side(source.1, flow.input.value, flow.output.value);
                    self.lost(agent, source, flow.sequence_number, flow.drops);
                    self.flow(agent, side, flow.sampling_rate, &flow.flow_records, time_s);
                }
                SampleData::CountersSample(_) | SampleData::CountersSampleExpanded(_) => self.counters += 1,
                _ => {}
            }
        }
    }

    /// Follows a data source's sequence numbers, and its count of samples that it could not take.
    fn lost(&mut self, agent: Agent, source: (u32, u32), sequence: u32, drops: u32) {
        let Some(loss) = self.agents.get_mut(&agent) else {
            return;
        };
        loss.samples += 1;
        let key = (agent, source.0, source.1);
        if self.sources.len() >= MOST_SOURCES && !self.sources.contains_key(&key) {
            return;
        }
        let first = !self.sources.contains_key(&key);
        let state = self.sources.entry(key).or_default();
        loss.lost += gap(&mut state.sequence, sequence);
        let more = drops.wrapping_sub(state.drops);
        if !first && more < MOST_GAP {
            loss.dropped += u64::from(more);
        }
        state.drops = drops;
    }

    fn flow(&mut self, agent: Agent, side: Side, rate: u32, records: &[FlowRecord], time_s: Option<f64>) {
        self.taken += 1;
        let rate = f64::from(rate.max(1));
        let Some(found) = records.iter().find_map(read) else {
            self.intake.skipped.add(Skip::NoHeader);
            return;
        };
        self.frame_bytes += found.frame_bytes as f64 * rate;
        let (source, target) = match found.sockets {
            Ok(sockets) => sockets,
            Err(why) => {
                self.intake.skipped.add(why);
                return;
            }
        };
        let payload = found.payload_bytes as f64;
        if found.payload_bytes == 0 {
            return;
        }
        let pair = self.intake.ends.pair(source, target);
        self.addresses.insert(pair.0, source.ip());
        self.addresses.insert(pair.1, target.ip());
        let view = self.views.of((agent, side));
        let whole = payload * rate;
        let sum = Sampled {
            whole,
            squares: whole * whole,
            seen: payload,
        };
        self.pooled.add(&sum);
        self.cells.add(view, pair, self.cells.interval(time_s), &sum);
    }

    /// Bytes by pair: from the sender's own agent if it has one, otherwise from the receiver's, otherwise from the view
    /// that saw most.
    pub fn rows(&self) -> Vec<Row> {
        let rank = |view: u32, pair: (End, End)| {
            let (agent, _) = self.views.keys[view as usize];
            let is = |end: End| {
                let own = self.addresses.get(&end).copied();
                u8::from(own.is_some() && (agent.address == own || Some(agent.from) == own))
            };
            2 * is(pair.0) + is(pair.1)
        };
        let scale = |view: u32| {
            let (agent, _) = self.views.keys[view as usize];
            self.agents.get(&agent).map_or(1.0, |loss| {
                let taken = loss.samples.max(1) as f64;
                (taken + (loss.lost + loss.dropped) as f64) / taken
            })
        };
        // The mean size that samples stand for, weighted by bytes, because the packets that carry most bytes are large.
        let unit = self.pooled.squares / self.pooled.whole.max(1.0);
        self.cells.rows(rank, scale, unit)
    }

    /// What has been received.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// The counters of skipped, lost and unplaced data.
    pub fn counters(&self) -> Vec<Counter> {
        let sum = |of: fn(&Loss) -> u64| self.agents.values().map(of).sum::<u64>() as f64;
        vec![
            ("datagrams", self.intake.datagrams as f64),
            ("other_datagrams", self.intake.others.total() as f64),
            ("damaged_datagrams", self.intake.damaged as f64),
            ("lost_datagrams", sum(|loss| loss.datagrams)),
            ("agents", self.agents.len() as f64),
            ("samples", self.taken as f64),
            ("ignored_samples", self.intake.skipped.total() as f64),
            ("counter_samples", self.counters as f64),
            ("lost_samples", sum(|loss| loss.lost)),
            ("dropped_samples", sum(|loss| loss.dropped)),
            ("frame_bytes", self.frame_bytes.round()),
            ("unplaced_bytes", self.cells.unplaced_bytes),
            ("folded_pairs", self.cells.folded_pairs as f64),
        ]
    }
}

/// The number of sequence numbers skipped before this one. Numbers far ahead or behind mean a restart or a late
/// datagram.
pub(crate) fn gap(last: &mut Option<u32>, number: u32) -> u64 {
    let missed = last.map_or(0, |last| number.wrapping_sub(last).wrapping_sub(1));
    if missed >= u32::MAX - MOST_GAP {
        return 0; // a datagram that later ones overtook
    }
    *last = Some(number);
    if missed > MOST_GAP { 0 } else { u64::from(missed) }
}

fn side(source: u32, input: u32, output: u32) -> Side {
    match (source == input, source == output) {
        (true, false) => Side::In,
        (false, true) => Side::Out,
        _ => Side::Unknown,
    }
}

struct Found {
    frame_bytes: u64,
    payload_bytes: u64,
    sockets: Result<(SocketAddr, SocketAddr), Skip>,
}

fn read(record: &FlowRecord) -> Option<Found> {
    match &record.flow_data {
        FlowData::SampledHeader(header) => {
            let link = match header.protocol {
                HeaderProtocol::EthernetIso88023 => LINK_ETHERNET,
                HeaderProtocol::Ipv4 | HeaderProtocol::Ipv6 => LINK_IP,
                HeaderProtocol::Ppp | HeaderProtocol::Pos => LINK_PPP,
                HeaderProtocol::Mpls => LINK_MPLS,
                other => {
                    return Some(Found {
                        frame_bytes: header.frame_length.into(),
                        payload_bytes: 0,
                        sockets: Err(Skip::Header(other as u32)),
                    });
                }
            };
            let frame_bytes = u64::from(header.frame_length);
            let record = Record {
                link,
                interface: 0,
                time_s: None,
                wire_bytes: frame_bytes.saturating_sub(header.stripped.into()),
                data: &header.header,
            };
            let segment = decode(&record);
            Some(Found {
                frame_bytes,
                payload_bytes: segment.map_or(0, |segment| segment.payload_bytes),
                sockets: segment.map(|segment| sockets(&segment)),
            })
        }
        FlowData::SampledIpv4(packet) => Some(headless(
            packet.length,
            packet.protocol,
            (packet.src_ip.into(), packet.src_port),
            (packet.dst_ip.into(), packet.dst_port),
        )),
        FlowData::SampledIpv6(packet) => Some(headless(
            packet.length,
            packet.protocol,
            (packet.src_ip.into(), packet.src_port),
            (packet.dst_ip.into(), packet.dst_port),
        )),
        _ => None,
    }
}

/// A sample that has its ends and the length of the IP packet, but no headers.
fn headless(length: u32, protocol: u32, source: (IpAddr, u32), target: (IpAddr, u32)) -> Found {
    let more = if source.0.is_ipv6() { IPV6_MORE_BYTES } else { 0 };
    let headers = match protocol {
        6 => Some(TCP_HEADERS_BYTES + more),
        17 => Some(UDP_HEADERS_BYTES + more),
        _ => None,
    };
    let socket = |(address, port): (IpAddr, u32)| SocketAddr::new(address.to_canonical(), port as u16);
    Found {
        frame_bytes: length.into(),
        payload_bytes: headers.map_or(0, |headers| u64::from(length).saturating_sub(headers)),
        sockets: match headers {
            Some(_) => Ok((socket(source), socket(target))),
            None => Err(Skip::Protocol(protocol as u8)),
        },
    }
}
