"""Take one sample with an engine: Gavotte's own agents, iperf3 or nuttcp.

Every engine gets the same Job and returns the same Sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from gavotte.agents import Budget, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.campaign.drivers import Endpoints
from gavotte.campaign.jobs import BACKGROUND_SPARE_S, BINS, Job, Packets, Sent, one_of
from gavotte.campaign.programs import by_programs
from gavotte.errors import AgentError
from gavotte.formats.inventory import Inventory

STAGGER_S = 0.5
"""Extra seconds that each of several pairs sends. Pairs start one after another, and only their common time counts."""
ROUND_SPARE_S = 60.0


def send(endpoints: Endpoints, engine: str, job: Job) -> Sent:
    """Take one sample with an engine (`own`, `iperf3` or `nuttcp`) and return the measured values.

    Raises:
        AgentError: when a host fails; the caller may try again.
    """
    if engine == "own":
        return _by_agents(endpoints, job)
    with ExitStack() as running:
        return by_programs(endpoints, engine, job, running)


def hops(endpoints: Endpoints, job: Job) -> dict[tuple[str, str], int]:
    """Return the path length of each pair (routers + 1), from probes of rising TTL. Unanswered pairs are missing."""
    pairs = [pair for pair in job.pairs if pair[0] != pair[1]]
    if not pairs:
        return {}
    probe = pb.Probe(traceroute=pb.Traceroute(max_hops=16, tries=2, timeout_s=0.3))
    hops = {}
    schedule = [[Step(source, target, probe)] for source, target in pairs]
    with enrolled(
        _inventory(endpoints, job),
        Budget(max_bytes=1 << 20, max_seconds=600),
        purpose="campaign",
        reach=endpoints.reach,
    ) as fleet:
        for answer in carry_out(fleet, schedule, round_s=10.0):
            if answer.reply is not None and not answer.error and answer.reply.traceroute.reached:
                hops[answer.source, answer.target] = len(answer.reply.traceroute.hops)
    return hops


def _inventory(endpoints: Endpoints, job: Job) -> Inventory:
    """Return the inventory of the hosts that take part in a job, at the job's addresses."""
    hosts = [
        replace_address(host, job.addresses.get(host.name, host.address))
        for host in endpoints.inventory.host
        if host.name in job.hosts
    ]
    return endpoints.inventory.model_copy(update={"host": hosts})


def replace_address(host: Any, address: str) -> Any:
    """Return a copy of a host with another address."""
    return host if host.address == address else host.model_copy(update={"address": address})


def _by_agents(endpoints: Endpoints, job: Job) -> Sent:
    udp = job.rate_bps is not None
    sending_s = job.seconds + (STAGGER_S if len(job.pairs) > 1 and not udp else 0.0)
    bin_s = sending_s / BINS

    def probe(connections: int, seconds: float) -> pb.Probe:
        return pb.Probe(
            bulk=pb.Bulk(
                seconds=seconds,
                flows=connections,
                congestion=job.congestion,
                bin_s=bin_s,
                copy=job.copy,
                # A far path takes seconds to fill, which would be a tenth of a short sample's bytes.
                settled=True,
                mtu_bytes=job.mtu_bytes,
            )
        )

    def datagrams(target: str) -> pb.Probe:
        payload_bytes = payload_of(job, endpoints, target)
        packets = pb.Datagrams(seconds=sending_s, rate_bps=job.rate_bps, payload_bytes=payload_bytes, bin_s=bin_s)
        return pb.Probe(datagrams=packets)

    steps = [
        Step(source, target, datagrams(target) if udp else probe(job.connections, sending_s))
        for source, target in job.pairs
    ]
    longer_s = sending_s + BACKGROUND_SPARE_S
    steps += [Step(each.source, each.target, probe(each.connections, longer_s)) for each in job.background]
    budget = Budget(max_bytes=0, max_seconds=longer_s + ROUND_SPARE_S)
    counted = set(job.pairs)
    with enrolled(_inventory(endpoints, job), budget, purpose="campaign", reach=endpoints.reach) as fleet:
        if fleet.missing:
            name, reason = next(iter(fleet.missing.items()))
            raise AgentError(f"host {name} cannot be used: {reason}")
        answers = carry_out(fleet, [steps], round_s=longer_s + ROUND_SPARE_S)
        reply_of = {
            (answer.source, answer.target): answer.checked()
            for answer in answers
            if (answer.source, answer.target) in counted
        }
        replies = [reply_of[pair] for pair in job.pairs]
        beside = [str(each) for each in fleet.beside()]
    if udp:
        return replace(_of_packets(replies, job.seconds, bin_s), beside=beside)
    flows = [flow for reply in replies for flow in reply.bulk.flows]
    if not flows or not all(flow.bytes for flow in flows):
        raise AgentError("a connection moved no bytes")
    rates_bps, capacity_bps = together(replies, bin_s, job.seconds / 2) if len(replies) > 1 else alone(replies[0])
    retransmits = sum(flow.retransmits for flow in flows)
    loaded = [flow.rtt_s for flow in flows if flow.rtt_s > 0]
    idle = [reply.rtt_s for reply in replies if reply.rtt_s > 0]
    return Sent(
        capacity_bps=capacity_bps,
        connection_bps=rates_bps,
        pair_bps=[capacity_bps]
        if len(replies) == 1
        else _by_pair(rates_bps, [len(each.bulk.flows) for each in replies]),
        segment_bytes=min((flow.segment_bytes for flow in flows if flow.segment_bytes), default=None),
        bins_bps=_binned([list(flow.bin_bytes) for flow in flows], bin_s),
        bin_s=bin_s,
        retransmits=retransmits,
        rtt_loaded_s=sum(loaded) / len(loaded) if loaded else None,
        rtt_idle_s=sum(idle) / len(idle) if idle else None,
        sender_cpu=max((reply.sender_cpu for reply in replies if reply.HasField("sender_cpu")), default=None),
        receiver_cpu=max((reply.receiver_cpu for reply in replies if reply.HasField("receiver_cpu")), default=None),
        sender_throttled=_throttled(reply.sender_withheld for reply in replies),
        receiver_throttled=_throttled(reply.receiver_withheld for reply in replies),
        congestion=one_of(flow.congestion for flow in flows),
        beside=beside,
    )


def payload_of(job: Job, endpoints: Endpoints, target: str) -> int:
    """Return the UDP payload of packets with the job's MTU to a host; 0 = as the path allows."""
    if not job.mtu_bytes:
        return 0
    address = job.addresses.get(target, endpoints.address(target))
    return job.mtu_bytes - (48 if ":" in address else 28)


def _by_pair(rates_bps: Sequence[float], flows: Sequence[int]) -> list[float]:
    """Return the sum of each pair's rates; `flows` has the number of connections of each pair."""
    ends = list(accumulate(flows, initial=0))
    return [sum(rates_bps[first:end]) for first, end in pairwise(ends)]


def _of_packets(replies: Sequence[pb.ProbeReply], seconds: float, bin_s: float) -> Sent:
    results = [reply.datagrams for reply in replies]
    # A queue delays the last packets: the rate is that of the time in which all arrived, not of the time of sending.
    rates = [8 * result.received * result.payload_bytes / max(result.seconds, seconds) for result in results]
    idle = [reply.rtt_s for reply in replies if reply.rtt_s > 0]
    return Sent(
        capacity_bps=sum(rates),
        connection_bps=rates,
        pair_bps=rates,
        bins_bps=_binned([list(result.bin_bytes) for result in results], bin_s),
        bin_s=bin_s,
        rtt_idle_s=sum(idle) / len(idle) if idle else None,
        sender_cpu=max((reply.sender_cpu for reply in replies if reply.HasField("sender_cpu")), default=None),
        receiver_cpu=max((reply.receiver_cpu for reply in replies if reply.HasField("receiver_cpu")), default=None),
        sender_throttled=_throttled(reply.sender_withheld for reply in replies),
        receiver_throttled=_throttled(reply.receiver_withheld for reply in replies),
        packets=[
            Packets(
                sent=result.sent,
                # The receiver's own buffer is no part of the path.
                lost=max(0, result.sent - result.received - result.overflow),
                late=result.late,
                jitter_s=result.jitter_s,
                least_delay_s=result.least_delay_s,
                median_delay_s=result.median_delay_s,
                high_delay_s=result.high_delay_s,
                most_delay_s=result.most_delay_s,
                clock_ahead_s=result.clock_ahead_s,
                clock_error_s=result.clock_error_s,
            )
            for result in results
        ],
    )


def _throttled(parts: Iterable[pb.Withheld]) -> float | None:
    """Return the largest share of time in which a quota throttled an agent; None = no agent reports it."""
    return max((part.throttled_s / part.seconds for part in parts if part.seconds > 0), default=None)


def alone(reply: pb.ProbeReply) -> tuple[list[float], float]:
    """Return the rates (bit/s) of one pair's connections, and of all together, defined as iperf3 and nuttcp do."""
    rates = [8 * flow.bytes / flow.seconds for flow in reply.bulk.flows if flow.seconds > 0]
    return rates, reply.bulk.goodput_bps


def together(replies: Sequence[pb.ProbeReply], bin_s: float, least_s: float) -> tuple[list[float], float]:
    """Return the rates (bit/s) of several pairs' connections during the time that all of them sent, and their sum.

    Pairs start when both of their agents are ready. The first pairs have the link to themselves until the last pair has
    started, and the last pairs after the first has ended. Their rates over the whole time add up to too much: two pairs
    of 1 s that started 0.25 s apart summed up to 125 % of their common link.

    Raises:
        AgentError: when all pairs sent at the same time for less than `least_s`.
    """
    ends = [reply.started_s + reply.seconds for reply in replies]
    spans = [max(flow.started_s + flow.seconds for flow in reply.bulk.flows) for reply in replies]
    begins = [end - span for end, span in zip(ends, spans, strict=True)]
    begin, end = max(begins), min(ends)
    if end - begin < least_s:
        raise AgentError(f"all senders sent together for {max(0.0, end - begin):.2f} s only, not {least_s:g} s")
    rates = []
    for first, reply in zip(begins, replies, strict=True):
        for flow in reply.bulk.flows:
            start = first + flow.started_s
            size = _until(flow, end - start, bin_s) - _until(flow, begin - start, bin_s)
            rates.append(8 * size / (end - begin))
    return rates, sum(rates)


def _until(flow: pb.FlowResult, time_s: float, bin_s: float) -> float:
    """Return the bytes that a connection received up to a time since its start, taken as even within each bin."""
    time_s = min(max(0.0, time_s), flow.seconds)
    at = min(int(time_s / bin_s), len(flow.bin_bytes) - 1)
    wide_s = min(bin_s, flow.seconds - at * bin_s)
    part = (time_s - at * bin_s) / wide_s if wide_s > 0 else 1.0
    return sum(flow.bin_bytes[:at]) + flow.bin_bytes[at] * min(1.0, part)


def _binned(flows: Sequence[Sequence[int]], bin_s: float) -> list[float]:
    """Return the rate (bit/s) of all flows together in each bin of time.

    The first bin, in which flows start, and the last bin, which is not full, are left out.
    """
    whole = max((len(bins) for bins in flows), default=0) - 1
    return [8 * sum(bins[at] for bins in flows if at < len(bins)) / bin_s for at in range(1, whole)]
