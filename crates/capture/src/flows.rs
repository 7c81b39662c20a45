//! NetFlow versions 5 and 9 and IPFIX: payload bytes between pairs of ends, from the flow records of meters.
//!
//! `netflow_parser` decodes datagrams and keeps the templates of each exporter; data that arrive before their template
//! wait for it. Meters count whole IP packets, so the headers are subtracted. The unknown length of TCP's options
//! determines the interval. If a meter samples packets, its options or its header say how many packets one sample
//! stands for.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use netflow_parser::static_versions::v5::V5;
use netflow_parser::variable_versions::PendingFlowsConfig;
use netflow_parser::variable_versions::ipfix::{self, IPFix};
use netflow_parser::variable_versions::v9::{self, V9};
use netflow_parser::{AutoScopedParser, NetflowPacket, NetflowParser};

use crate::cells::Counter;
use crate::cells::{Cells, Numbers, Row, Sum};
use crate::ends::{Directory, End};
use crate::exports::kind_of;
use crate::flow_records::{Flow, Sampling, flow_of};
use crate::intake::Intake;
use crate::interval::sampled_range;
use crate::sampled::gap;
use crate::skipped::Skip;

/// TCP's header without options, with the options that Linux sends, and with the longest possible options.
const TCP_BYTES: [f64; 3] = [20.0, 32.0, 60.0];
const UDP_BYTES: [f64; 3] = [8.0, 8.0, 8.0];

/// A flow that spans more intervals counts in the last one.
const MOST_INTERVALS: i64 = 10_000;
const MOST_SOURCES: usize = 1 << 14;

/// Exporters whose templates are kept, and the most bytes of each one's data that wait for their template.
const MOST_EXPORTERS: usize = 256;
const MOST_WAITING_BYTES: usize = 256 << 10;

/// The exports to read; others are counted and skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Versions 5, 7 and 9.
    NetFlow,
    /// Version 10.
    Ipfix,
}

#[derive(Clone, Copy, Debug, Default)]
struct Octets {
    whole: f64,
    low: f64,
    high: f64,
    /// Sum of squares of the bytes that each sampled packet stands for; 0 if nothing was sampled.
    squares: f64,
    /// Octets that were counted directly.
    seen: f64,
}

impl Sum for Octets {
    fn add(&mut self, other: &Self) {
        self.whole += other.whole;
        self.low += other.low;
        self.high += other.high;
        self.squares += other.squares;
        self.seen += other.seen;
    }
    fn bytes(&self) -> f64 {
        self.whole
    }
    fn range(&self, unit: f64) -> (f64, f64) {
        if self.squares <= 0.0 {
            return (self.low, self.high);
        }
        let (low, high) = sampled_range(self.whole, self.squares, self.seen, unit);
        ((low - self.whole + self.low).max(0.0), high - self.whole + self.high)
    }
}

type Exporter = (IpAddr, u32);

/// The flows that meters exported.
pub struct Flows {
    kind: Kind,
    parser: AutoScopedParser,
    intake: Intake,
    cells: Cells<Octets>,
    views: Numbers<(Exporter, bool)>,
    /// By exporter and sampler; without a sampler, the rate that was reported last.
    rates: HashMap<(Exporter, Option<u64>), f64>,
    sequences: HashMap<Exporter, Option<u32>>,
    records: u64,
    options: u64,
    ignored_bytes: f64,
    untold: u64,
    lost: u64,
    octets: f64,
}

impl Flows {
    /// An empty collection.
    ///
    /// # Panics
    /// Never: the parser accepts the constant limits given here.
    pub fn new(kind: Kind, ends: Directory, every_s: Option<f64>) -> Self {
        let mut pending = PendingFlowsConfig::default();
        pending.max_pending_flows = 64;
        pending.max_total_bytes = MOST_WAITING_BYTES;
        let builder = NetflowParser::builder()
            .with_cache_size(1024)
            .with_pending_flows(pending);
        let parser =
            AutoScopedParser::try_with_builder(builder).and_then(|parser| parser.with_max_sources(MOST_EXPORTERS));
        Self {
            kind,
            parser: parser.expect("limits that the parser takes"),
            cells: Cells::new(&ends, every_s),
            intake: Intake::new(ends),
            views: Numbers::new(),
            rates: HashMap::new(),
            sequences: HashMap::new(),
            records: 0,
            options: 0,
            ignored_bytes: 0.0,
            untold: 0,
            lost: 0,
            octets: 0.0,
        }
    }

    /// Reads a datagram from an exporter. A damaged datagram, or one of another version, is counted and skipped.
    pub fn datagram(&mut self, exporter: SocketAddr, payload: &[u8]) {
        let kind = kind_of(payload);
        let wanted = match kind {
            "NetFlow version 5" | "NetFlow version 7" | "NetFlow version 9" => self.kind == Kind::NetFlow,
            "IPFIX" => self.kind == Kind::Ipfix,
            _ => false,
        };
        if !wanted {
            self.intake.others.add(Skip::Datagram(kind));
            return;
        }
        self.intake.datagrams += 1;
        let parsed = self.parser.parse_from_source(exporter, payload);
        if let Some(error) = &parsed.error {
            self.intake.reject(error);
        }
        for packet in parsed.packets {
            match packet {
                NetflowPacket::V5(found) => self.v5(exporter.ip(), &found),
                NetflowPacket::V9(found) => self.v9(exporter.ip(), &found),
                NetflowPacket::IPFix(found) => self.ipfix(exporter.ip(), &found),
                _ => self.untold += 1,
            }
        }
    }

    fn v5(&mut self, address: IpAddr, found: &V5) {
        let header = &found.header;
        let exporter = (
            address,
            u32::from(header.engine_type) << 8 | u32::from(header.engine_id),
        );
        self.follow(exporter, header.flow_sequence, found.flowsets.len() as u32);
        let rate = f64::from((header.sampling_interval & 0x3fff).max(1));
        let boot_s =
            f64::from(header.unix_secs) + f64::from(header.unix_nsecs) * 1e-9 - f64::from(header.sys_up_time) * 1e-3;
        for set in &found.flowsets {
            let flow = Flow {
                source: Some(set.src_addr.into()),
                target: Some(set.dst_addr.into()),
                source_port: set.src_port,
                target_port: set.dst_port,
                protocol: Some(set.protocol_number),
                octets: set.d_octets.into(),
                packets: set.d_pkts.into(),
                start_s: Some(boot_s + f64::from(set.first) * 1e-3),
                end_s: Some(boot_s + f64::from(set.last) * 1e-3),
                ..Flow::default()
            };
            self.flow(exporter, rate, &flow);
        }
    }

    fn v9(&mut self, address: IpAddr, found: &V9) {
        let header = &found.header;
        let exporter = (address, header.source_id);
        self.follow(exporter, header.sequence_number, 1);
        let boot_s = f64::from(header.unix_secs) - f64::from(header.sys_up_time) * 1e-3;
        for set in &found.flowsets {
            match &set.body {
                v9::FlowSetBody::OptionsData(options) => {
                    for record in &options.fields {
                        let mut options = Flow::default();
                        for (field, value) in &record.options_fields {
                            options.take(u16::from(*field), value);
                        }
                        self.sampling(exporter, options.sampling);
                    }
                }
                v9::FlowSetBody::Data(data) => {
                    for record in &data.fields {
                        let mut flow = Flow::default();
                        for (field, value) in record {
                            flow.take(u16::from(*field), value);
                        }
                        self.timed(exporter, flow, Some(boot_s), f64::from(header.unix_secs));
                    }
                }
                v9::FlowSetBody::NoTemplate(_) => self.untold += 1,
                _ => {}
            }
        }
    }

    fn ipfix(&mut self, address: IpAddr, found: &IPFix) {
        let header = &found.header;
        let exporter = (address, header.observation_domain_id);
        let export_s = f64::from(header.export_time);
        let mut records = 0;
        for set in &found.flowsets {
            match &set.body {
                ipfix::FlowSetBody::OptionsData(options) => {
                    records += options.fields.len() as u32;
                    for record in &options.fields {
                        self.sampling(exporter, flow_of(record).0.sampling);
                    }
                }
                ipfix::FlowSetBody::Data(data) => {
                    records += data.fields.len() as u32;
                    for record in &data.fields {
                        let (flow, boot_s) = flow_of(record);
                        self.timed(exporter, flow, boot_s, export_s);
                    }
                }
                ipfix::FlowSetBody::NoTemplate(_) => self.untold += 1,
                _ => {}
            }
        }
        self.follow(exporter, header.sequence_number, records);
    }

    /// Follows an exporter's sequence numbers; a datagram's number is that of its first record.
    fn follow(&mut self, exporter: Exporter, number: u32, records: u32) {
        if self.sequences.len() >= MOST_SOURCES && !self.sequences.contains_key(&exporter) {
            return;
        }
        let last = self.sequences.entry(exporter).or_default();
        self.lost += gap(last, number);
        if *last == Some(number) {
            *last = Some(number.wrapping_add(records.saturating_sub(1)));
        }
    }

    fn sampling(&mut self, exporter: Exporter, sampling: Sampling) {
        self.options += 1;
        let Some(rate) = sampling.rate() else {
            return;
        };
        for sampler in [None, sampling.sampler] {
            let key = (exporter, sampler);
            if self.rates.len() < MOST_SOURCES || self.rates.contains_key(&key) {
                self.rates.insert(key, rate);
            }
        }
    }

    fn timed(&mut self, exporter: Exporter, mut flow: Flow, boot_s: Option<f64>, export_s: f64) {
        if let Some(boot_s) = boot_s {
            flow.start_s = flow.start_s.or(flow.start_up_ms.map(|ms| boot_s + ms as f64 * 1e-3));
            flow.end_s = flow.end_s.or(flow.end_up_ms.map(|ms| boot_s + ms as f64 * 1e-3));
        }
        flow.end_s = flow.end_s.or(Some(export_s));
        let rate = flow
            .sampling
            .rate()
            .or_else(|| self.rates.get(&(exporter, flow.sampling.sampler)).copied())
            .or_else(|| self.rates.get(&(exporter, None)).copied())
            .unwrap_or(1.0);
        self.flow(exporter, rate, &flow);
    }

    fn flow(&mut self, exporter: Exporter, rate: f64, flow: &Flow) {
        self.records += 1;
        self.octets += (flow.octets + flow.back_octets) as f64 * rate;
        let ends = (flow.source, flow.target);
        let counted = match (flow.protocol, ends) {
            (Some(6), (Some(source), Some(target))) => Ok((TCP_BYTES, source, target)),
            (Some(17), (Some(source), Some(target))) => Ok((UDP_BYTES, source, target)),
            (Some(6 | 17), _) => Err(Skip::NoAddress),
            (Some(other), _) => Err(Skip::Protocol(other)),
            (None, _) => Err(Skip::NoProtocol),
        };
        let (headers, source, target) = match counted {
            Ok(parts) => parts,
            Err(why) => {
                self.intake.skipped.add(why);
                self.ignored_bytes += (flow.octets + flow.back_octets) as f64 * rate;
                return;
            }
        };
        let ip = if source.is_ipv4() { 20.0 } else { 40.0 };
        let source = SocketAddr::new(source.to_canonical(), flow.source_port);
        let target = SocketAddr::new(target.to_canonical(), flow.target_port);
        let pair = self.intake.ends.pair(source, target);
        let view = self.views.of((exporter, flow.outgoing));
        for (pair, octets, packets) in [
            (pair, flow.octets, flow.packets),
            ((pair.1, pair.0), flow.back_octets, flow.back_packets),
        ] {
            let (octets, packets) = (octets as f64, packets as f64);
            let payload = |header: f64| (octets - packets * (ip + header)).max(0.0);
            let (low, whole, high) = (payload(headers[2]), payload(headers[1]), payload(headers[0]));
            // In a flow of bare acknowledgements, the options have more octets than the estimate subtracted.
            if high <= 0.0 {
                continue;
            }
            let sampled = rate > 1.0;
            let sum = Octets {
                whole: whole * rate,
                low: low * rate,
                high: high * rate,
                squares: if sampled {
                    (whole * rate).powi(2) / packets.max(1.0)
                } else {
                    0.0
                },
                seen: whole,
            };
            self.spread(view, pair, flow, &sum);
        }
    }

    /// Divides a flow among the intervals that it spans, as if its rate had been constant.
    fn spread(&mut self, view: Option<u32>, pair: (End, End), flow: &Flow, sum: &Octets) {
        let last = self.cells.interval(flow.end_s);
        let first = self.cells.interval(flow.start_s.or(flow.end_s)).min(last);
        let (Some(every_s), Some(start_s), Some(end_s)) = (self.cells.every_s(), flow.start_s, flow.end_s) else {
            self.cells.add(view, pair, last, sum);
            return;
        };
        if first == last || last - first > MOST_INTERVALS || end_s <= start_s {
            self.cells.add(view, pair, last, sum);
            return;
        }
        for interval in first..=last {
            let from_s = (interval as f64 * every_s).max(start_s);
            let until_s = ((interval + 1) as f64 * every_s).min(end_s);
            let share = ((until_s - from_s) / (end_s - start_s)).clamp(0.0, 1.0);
            let part = Octets {
                whole: sum.whole * share,
                low: sum.low * share,
                high: sum.high * share,
                squares: sum.squares * share,
                seen: sum.seen * share,
            };
            self.cells.add(view, pair, interval, &part);
        }
    }

    /// Bytes by pair, each from the view that saw most of it.
    pub fn rows(&self) -> Vec<Row> {
        self.cells.rows(|_, _| 0_u8, |_| 1.0, 0.0)
    }

    /// What has been received.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// The sets of flows whose template has not come: those that still wait, and those for which no room was left.
    fn untold(&self) -> u64 {
        let parsers = self.parser.ipfix_info().into_iter().map(|(_, info)| info);
        let parsers = parsers.chain(self.parser.v9_info().into_iter().map(|(_, info)| info));
        let waiting: usize = parsers
            .map(|info| info.v9.pending_flow_count + info.ipfix.pending_flow_count)
            .sum();
        self.untold + waiting as u64
    }

    /// The counters of skipped and unplaced data.
    pub fn counters(&self) -> Vec<Counter> {
        vec![
            ("datagrams", self.intake.datagrams as f64),
            ("other_datagrams", self.intake.others.total() as f64),
            ("damaged_datagrams", self.intake.damaged as f64),
            ("exporters", self.sequences.len() as f64),
            ("flows", self.records as f64),
            ("options", self.options as f64),
            ("ignored_flows", self.intake.skipped.total() as f64),
            ("ignored_bytes", self.ignored_bytes.round()),
            ("untold_sets", self.untold() as f64),
            ("lost_records", self.lost as f64),
            ("ip_bytes", self.octets.round()),
            ("unplaced_bytes", self.cells.unplaced_bytes),
            ("folded_pairs", self.cells.folded_pairs as f64),
        ]
    }
}
