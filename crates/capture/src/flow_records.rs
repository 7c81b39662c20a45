//! The records of flows that meters export: which fields of NetFlow version 9 and IPFIX count, and what they mean.

use std::net::{IpAddr, Ipv4Addr};

use netflow_parser::variable_versions::ipfix::lookup::IANAIPFixField as Iana;
use netflow_parser::variable_versions::ipfix::lookup::ReverseInformationElement as Reverse;
use netflow_parser::{FieldValue, IpfixField};

/// One direction of a flow as a meter reports it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) source: Option<IpAddr>,
    pub(crate) target: Option<IpAddr>,
    pub(crate) source_port: u16,
    pub(crate) target_port: u16,
    pub(crate) protocol: Option<u8>,
    pub(crate) octets: u64,
    pub(crate) packets: u64,
    pub(crate) back_octets: u64,
    pub(crate) back_packets: u64,
    pub(crate) start_s: Option<f64>,
    pub(crate) end_s: Option<f64>,
    pub(crate) start_up_ms: Option<u64>,
    pub(crate) end_up_ms: Option<u64>,
    pub(crate) outgoing: bool,
    pub(crate) sampling: Sampling,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampling {
    /// The number of the sampler, of which a meter may have several.
    pub(crate) sampler: Option<u64>,
    pub(crate) interval: Option<u64>,
    pub(crate) packets: Option<u64>,
    pub(crate) space: Option<u64>,
    pub(crate) size: Option<u64>,
    pub(crate) population: Option<u64>,
}

impl Sampling {
    /// The number of packets that one sample stands for.
    pub(crate) fn rate(self) -> Option<f64> {
        match (self.packets, self.space, self.size, self.population) {
            (Some(packets), Some(space), ..) if packets > 0 => Some(1.0 + space as f64 / packets as f64),
            (.., Some(size), Some(population)) if size > 0 && population >= size => {
                Some(population as f64 / size as f64)
            }
            _ => self
                .interval
                .filter(|interval| *interval > 0)
                .map(|interval| interval as f64),
        }
    }
}

impl Flow {
    /// Reads a field by its number, which is the same in NetFlow version 9 and at IANA.
    pub(crate) fn take(&mut self, field: u16, value: &FieldValue) {
        let number = || value.as_u64().unwrap_or(0);
        let address = || match value {
            FieldValue::Ip4Addr(address) => Some(IpAddr::from(*address)),
            FieldValue::Ip6Addr(address) => Some(IpAddr::from(*address)),
            _ => None,
        };
        match field {
            1 | 85 => self.octets = self.octets.max(number()),
            2 | 86 => self.packets = self.packets.max(number()),
            4 => self.protocol = value.as_u8(),
            7 => self.source_port = number() as u16,
            8 | 27 => self.source = address().filter(known).or(self.source),
            11 => self.target_port = number() as u16,
            12 | 28 => self.target = address().filter(known).or(self.target),
            21 => self.end_up_ms = Some(number()),
            22 => self.start_up_ms = Some(number()),
            23 if self.octets == 0 => self.octets = number(),
            24 if self.packets == 0 => self.packets = number(),
            34 | 50 => self.sampling.interval = Some(number()),
            48 | 302 => self.sampling.sampler = Some(number()),
            61 => self.outgoing = number() == 1,
            150 | 152 | 154 | 156 => self.start_s = Some(number() as f64 * 1e-3),
            151 | 153 | 155 | 157 => self.end_s = Some(number() as f64 * 1e-3),
            305 => self.sampling.packets = Some(number()),
            306 => self.sampling.space = Some(number()),
            309 => self.sampling.size = Some(number()),
            310 => self.sampling.population = Some(number()),
            _ => {}
        }
    }
}

/// Dual-stack templates fill the family that a flow does not use with zeros.
fn known(address: &IpAddr) -> bool {
    *address != IpAddr::V4(Ipv4Addr::UNSPECIFIED) && !address.is_unspecified()
}

/// A flow from IPFIX fields, and the start time of the meter.
pub(crate) fn flow_of(record: &[(IpfixField, FieldValue)]) -> (Flow, Option<f64>) {
    let mut flow = Flow::default();
    let mut boot_s = None;
    for (field, value) in record {
        match field {
            IpfixField::IANA(Iana::SystemInitTimeMilliseconds) => boot_s = value.as_u64().map(|ms| ms as f64 * 1e-3),
            IpfixField::IANA(iana) => flow.take(iana_number(*iana), value),
            IpfixField::ReverseInformationElement(
                Reverse::ReverseOctetDeltaCount | Reverse::ReverseOctetTotalCount,
            ) => {
                flow.back_octets = value.as_u64().unwrap_or(0);
            }
            IpfixField::ReverseInformationElement(
                Reverse::ReversePacketDeltaCount | Reverse::ReversePacketTotalCount,
            ) => flow.back_packets = value.as_u64().unwrap_or(0),
            _ => {}
        }
    }
    (flow, boot_s)
}

fn iana_number(field: Iana) -> u16 {
    match field {
        Iana::OctetDeltaCount => 1,
        Iana::PacketDeltaCount => 2,
        Iana::ProtocolIdentifier => 4,
        Iana::SourceTransportPort => 7,
        Iana::SourceIpv4address => 8,
        Iana::DestinationTransportPort => 11,
        Iana::DestinationIpv4address => 12,
        Iana::FlowEndSysUpTime => 21,
        Iana::FlowStartSysUpTime => 22,
        Iana::SourceIpv6address => 27,
        Iana::DestinationIpv6address => 28,
        Iana::SamplingInterval => 34,
        Iana::SamplerId => 48,
        Iana::SamplerRandomInterval => 50,
        Iana::FlowDirection => 61,
        Iana::OctetTotalCount => 85,
        Iana::PacketTotalCount => 86,
        Iana::FlowStartSeconds => 150,
        Iana::FlowEndSeconds => 151,
        Iana::FlowStartMilliseconds => 152,
        Iana::FlowEndMilliseconds => 153,
        Iana::FlowStartMicroseconds => 154,
        Iana::FlowEndMicroseconds => 155,
        Iana::FlowStartNanoseconds => 156,
        Iana::FlowEndNanoseconds => 157,
        Iana::SamplingPacketInterval => 305,
        Iana::SamplingPacketSpace => 306,
        Iana::SelectorId => 302,
        Iana::SamplingSize => 309,
        Iana::SamplingPopulation => 310,
        _ => u16::MAX,
    }
}
