"""Take one sample with an engine: Gavotte's own agents, iperf3 or nuttcp.

Every engine gets the same Job and returns the same Sent.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from gavotte.agents import Budget, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.campaign.drivers import Endpoints
from gavotte.errors import AgentError
from gavotte.formats.campaign import Background
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.names import MAX_LABEL

BINS = 20
"""Number of equal parts of a sample's time whose rates show how the rate varied within the sample."""
STAGGER_S = 0.5
"""Extra seconds that each of several pairs sends. Pairs start one after another, and only their common time counts."""
BACKGROUND_SPARE_S = 1.0
"""Seconds by which background traffic outlasts a sample."""
ROUND_SPARE_S = 60.0
PROGRAM_SPARE_S = 20.0
PROGRAM_LIMIT_S = 60
"""Seconds after its sending time at which the host ends a program."""
FIRST_PORT = 20_100
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Job:
    """One sample to take, in the terms of an engine.

    Attributes:
        pairs: (source, target) of all pairs that send at once.
        connections: number of connections of each pair.
        seconds: duration of sending.
        congestion: TCP congestion control.
        copy: whether agents copy received data, as other programs do, or have the kernel drop it.
        background: other traffic during the sample.
        addresses: host to the address at which other hosts reach it, if that differs from the inventory.
    """

    pairs: Sequence[tuple[str, str]]
    connections: int
    seconds: float
    congestion: str
    copy: bool
    background: Sequence[Background] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)

    @property
    def hosts(self) -> list[str]:
        """Names of all hosts that send or receive, background traffic included; each once."""
        beside = [end for each in self.background for end in (each.source, each.target)]
        return list(dict.fromkeys([*(end for pair in self.pairs for end in pair), *beside]))


@dataclass
class Sent:
    """What an engine measured in one sample.

    Attributes:
        capacity_bps: goodput of all pairs together, bit/s.
        connection_bps: goodput of each connection, bit/s; empty if the engine reports none.
        bins_bps: goodput of all pairs together in each bin of time, bit/s; gives the confidence interval. Empty if the
            engine reports none.
        retransmits: TCP segments sent again; None = unknown.
        rtt_loaded_s: mean of the connections' smoothed RTT under load; None = unknown.
        rtt_idle_s: RTT before the load; None = unknown.
        sender_cpu: largest busy share of a sender's cores, 0 to 1; from iperf3 and nuttcp, cores used by their
            processes; None = unknown.
        receiver_cpu: the same for the receivers.
        sender_throttled: largest share of the time in which a quota throttled a sending agent, 0 to 1; None = unknown.
        receiver_throttled: the same for the receiving agents.
        congestion: the congestion control of the sending sockets; empty = unknown.
        beside: other runs that moved bytes at the same time.
    """

    capacity_bps: float
    connection_bps: list[float]
    bins_bps: list[float] = field(default_factory=list)
    retransmits: int | None = None
    rtt_loaded_s: float | None = None
    rtt_idle_s: float | None = None
    sender_cpu: float | None = None
    receiver_cpu: float | None = None
    sender_throttled: float | None = None
    receiver_throttled: float | None = None
    congestion: str = ""
    beside: list[str] = field(default_factory=list)


def jain(values: Sequence[float]) -> float | None:
    """Return Jain's fairness index of rates, 1/n to 1; None = no rate is above 0 (Jain, Chiu, Hawe: cs.NI/9809099)."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def send(endpoints: Endpoints, engine: str, job: Job) -> Sent:
    """Take one sample with an engine (`own`, `iperf3` or `nuttcp`) and return the measured values.

    Raises:
        AgentError: when a host fails; the caller may try again.
    """
    if engine == "own":
        return _by_agents(endpoints, job)
    with ExitStack() as running:
        return _by_programs(endpoints, engine, job, running)


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
    sending_s = job.seconds + (STAGGER_S if len(job.pairs) > 1 else 0.0)
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
            )
        )

    steps = [Step(source, target, probe(job.connections, sending_s)) for source, target in job.pairs]
    longer_s = sending_s + BACKGROUND_SPARE_S
    steps += [Step(each.source, each.target, probe(each.connections, longer_s)) for each in job.background]
    budget = Budget(max_bytes=0, max_seconds=longer_s + ROUND_SPARE_S)
    counted = set(job.pairs)
    with enrolled(_inventory(endpoints, job), budget, purpose="campaign", reach=endpoints.reach) as fleet:
        if fleet.missing:
            name, reason = next(iter(fleet.missing.items()))
            raise AgentError(f"host {name} cannot be used: {reason}")
        answers = carry_out(fleet, [steps], round_s=longer_s + ROUND_SPARE_S)
        replies = [answer.checked() for answer in answers if (answer.source, answer.target) in counted]
        beside = [str(each) for each in fleet.beside()]
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
        bins_bps=_binned([list(flow.bin_bytes) for flow in flows], bin_s),
        retransmits=retransmits,
        rtt_loaded_s=sum(loaded) / len(loaded) if loaded else None,
        rtt_idle_s=sum(idle) / len(idle) if idle else None,
        sender_cpu=max((reply.sender_cpu for reply in replies if reply.HasField("sender_cpu")), default=None),
        receiver_cpu=max((reply.receiver_cpu for reply in replies if reply.HasField("receiver_cpu")), default=None),
        sender_throttled=_throttled(reply.sender_withheld for reply in replies),
        receiver_throttled=_throttled(reply.receiver_withheld for reply in replies),
        congestion=_one_of(flow.congestion for flow in flows),
        beside=beside,
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


def _one_of(values: Iterable[str]) -> str:
    """Return the distinct non-empty values, sorted and joined by commas; one value if all agree."""
    return ",".join(sorted(set(values) - {""}))


def _binned(flows: Sequence[Sequence[int]], bin_s: float) -> list[float]:
    """Return the rate (bit/s) of all flows together in each bin of time.

    The first bin, in which flows start, and the last bin, which is not full, are left out.
    """
    whole = max((len(bins) for bins in flows), default=0) - 1
    return [8 * sum(bins[at] for bins in flows if at < len(bins)) / bin_s for at in range(1, whole)]


def _by_programs(endpoints: Endpoints, engine: str, job: Job, running: ExitStack) -> Sent:
    """Take one sample with iperf3 or nuttcp: run a server and a client for each pair, and join the clients' results."""
    seconds = max(1, math.ceil(job.seconds))
    beside_s = seconds + math.ceil(BACKGROUND_SPARE_S)
    streams = [(pair, job.connections, seconds, True) for pair in job.pairs]
    streams += [((each.source, each.target), each.connections, beside_s, False) for each in job.background]
    tests: list[tuple[str, list[str], bool]] = []
    port = FIRST_PORT
    for (source, target), connections, length, counted in streams:
        address = LOOPBACK if source == target else job.addresses.get(target, endpoints.address(target))
        _serve(endpoints, engine, target, port, length, running)
        tests.append((source, _client(engine, address, port, connections, length, job.congestion), counted))
        # nuttcp uses a data port for each of its connections.
        port += 2 + connections
    clients = [(_started(endpoints, source, words, beside_s, running), counted) for source, words, counted in tests]
    used = _asked_congestion(endpoints, *job.pairs[0], job, seconds) if engine == "nuttcp" else ""
    reports = []
    end = time.monotonic() + beside_s + PROGRAM_SPARE_S
    for client, counted in clients:
        try:
            out, err = client.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AgentError(f"{engine} does not end") from None
        if counted:
            reports.append(read_iperf3(out, err) if engine == "iperf3" else read_nuttcp(out, err))
    sent = joined(reports)
    return replace(sent, congestion=used) if used else sent


def _asked_congestion(endpoints: Endpoints, source: str, target: str, job: Job, seconds: float) -> str:
    """Return the congestion control of a pair's open connections, as `ss` on the sender reports it; empty = unknown."""
    address = LOOPBACK if source == target else job.addresses.get(target, endpoints.address(target))
    script = f"sleep {min(1.0, seconds / 2):g}; ss -tinH state established dst '{address}'"
    return _one_of(re.findall(r"^\s+(\w+) wscale", endpoints.ask(source, script), re.MULTILINE))


def _serve(endpoints: Endpoints, engine: str, host: str, port: int, seconds: float, running: ExitStack) -> None:
    """Start a server on a host for one test, and wait until it listens."""
    words = {
        "iperf3": ["iperf3", "-s", "-1", "-p", str(port)],
        "nuttcp": ["nuttcp", "-1", "--nofork", "-P", str(port), "-p", str(port + 1)],
    }[engine]
    server = _started(endpoints, host, words, seconds, running)
    # The server's output may wait in a pipe's buffer; the kernel's table of sockets shows the open port at once.
    table = (
        f"n=0; until cat /proc/net/tcp /proc/net/tcp6 | grep -qiE ':{port:04X} 0+:0000 0A'; do "
        "sleep 0.02; n=$((n+1)); [ $n -lt 250 ] || exit; done; echo ok"
    )
    if "ok" not in endpoints.ask(host, table):
        reason = _last(server) if server.poll() is not None else "no port opened in time"
        raise AgentError(f"{host}: {engine} does not listen: {reason}")


def _client(engine: str, address: str, port: int, connections: int, seconds: int, congestion: str) -> list[str]:
    if engine == "iperf3":
        words = ["iperf3", "-c", address, "-p", str(port), "-t", str(seconds), "-P", str(connections)]
        return [*words, "-C", congestion, "-i", str(max(0.1, round(seconds / BINS, 2))), "-J"]
    words = ["nuttcp", "-t", "-P", str(port), "-p", str(port + 1), f"-T{seconds}", "-N", str(connections)]
    return [*words, "-fparse", "-v", address]


def _started(
    endpoints: Endpoints, host: str, words: Sequence[str], seconds: float, running: ExitStack
) -> subprocess.Popen[str]:
    # `timeout` ends the program on a host reached by ssh even if the controller was killed.
    process = endpoints.start(host, ["timeout", str(PROGRAM_LIMIT_S + math.ceil(seconds)), *words])

    def end() -> None:
        # The sample is over: the program has nothing left to wait for.
        process.terminate()
        try:
            process.communicate(timeout=2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    running.callback(end)
    return process


def _last(process: subprocess.Popen[str]) -> str:
    output = process.stderr.read() if process.stderr is not None and process.poll() is not None else ""
    return (output.strip().splitlines() or ["it printed nothing"])[-1][:MAX_LABEL]


def read_iperf3(out: str, err: str = "") -> Sent:
    """Return the measured values in the JSON output of an iperf3 client.

    Raises:
        AgentError: when the output is unusable; gives the error that iperf3 reports.
    """
    try:
        report = json.loads(out)
        if "error" in report:
            raise AgentError(f"iperf3: {report['error']}")
        end = report["end"]
        streams = [stream["sender"] | {"got_bps": stream["receiver"]["bits_per_second"]} for stream in end["streams"]]
        cpu = end.get("cpu_utilization_percent", {})
        rtts = [stream["mean_rtt"] / 1e6 for stream in streams if stream.get("mean_rtt")]
        return Sent(
            capacity_bps=float(end["sum_received"]["bits_per_second"]),
            connection_bps=[float(stream["got_bps"]) for stream in streams],
            bins_bps=[float(each["sum"]["bits_per_second"]) for each in report.get("intervals", [])][1:-1],
            retransmits=end["sum_sent"].get("retransmits"),
            rtt_loaded_s=sum(rtts) / len(rtts) if rtts else None,
            sender_cpu=cpu["host_total"] / 100 if "host_total" in cpu else None,
            receiver_cpu=cpu["remote_total"] / 100 if "remote_total" in cpu else None,
            congestion=str(end.get("sender_tcp_congestion", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = (err.strip().splitlines() or [f"{type(error).__name__} in what it printed"])[-1]
        raise AgentError(f"iperf3: {reason[:200]}") from None


_NUTTCP = re.compile(r"(\w+)=(\S+)")


def read_nuttcp(out: str, err: str = "") -> Sent:
    """Return the measured values in the output of a nuttcp client with `-fparse -v`.

    The output is the sender's part, an empty line and the receiver's part.

    Raises:
        AgentError: when the output is unusable; gives the error that nuttcp reports.
    """
    parts = [dict(_NUTTCP.findall(part)) for part in re.split(r"\n\s*\n", out)]
    parts = [part for part in parts if "rate_Mbps" in part]
    try:
        sender, receiver = parts[0], parts[-1]
        rate_bps = float(receiver["rate_Mbps"]) * 1e6
        rtt = float(sender["rtt_ms"]) / 1e3 if "rtt_ms" in sender else None
        return Sent(
            capacity_bps=rate_bps,
            # nuttcp reports only the sum of several connections.
            connection_bps=[rate_bps] if receiver.get("nstream", sender.get("nstream", "1")) == "1" else [],
            retransmits=int(sender["retrans"]) if "retrans" in sender else None,
            rtt_idle_s=rtt,
            sender_cpu=_percent(sender),
            receiver_cpu=_percent(receiver),
        )
    except (IndexError, KeyError, ValueError):
        reason = ((err + out).strip().splitlines() or ["it printed nothing"])[-1]
        raise AgentError(f"nuttcp: {reason[:200]}") from None


def _percent(part: Mapping[str, str]) -> float | None:
    return float(part["cpu"].rstrip("%")) / 100 if "cpu" in part else None


def joined(tests: Sequence[Sent]) -> Sent:
    """Return the results of clients that sent at the same time as one: rates added up, round-trip times averaged."""
    if not tests:
        raise AgentError("nobody sent")
    if len(tests) == 1:
        return tests[0]
    retransmits = [test.retransmits for test in tests if test.retransmits is not None]

    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    length = min(len(test.bins_bps) for test in tests)
    return replace(
        tests[0],
        capacity_bps=sum(test.capacity_bps for test in tests),
        connection_bps=[rate for test in tests for rate in test.connection_bps],
        bins_bps=[sum(test.bins_bps[at] for test in tests) for at in range(length)],
        retransmits=sum(retransmits) if retransmits else None,
        rtt_loaded_s=mean([test.rtt_loaded_s for test in tests]),
        rtt_idle_s=mean([test.rtt_idle_s for test in tests]),
        # nuttcp reports its process's share of one core, so the shares on one host add up.
        sender_cpu=sum(known)
        if (known := [test.sender_cpu for test in tests if test.sender_cpu is not None])
        else None,
        receiver_cpu=sum(known)
        if (known := [test.receiver_cpu for test in tests if test.receiver_cpu is not None])
        else None,
    )
