"""Take one sample with programs that every host has: iperf3 or nuttcp. Their output is read into a Sent."""

from __future__ import annotations

import json
import math
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from gavotte.campaign.drivers import Endpoints
from gavotte.campaign.jobs import BACKGROUND_SPARE_S, BINS, LOOPBACK, Job, Packets, Sent, one_of
from gavotte.errors import AgentError
from gavotte.formats.parts.names import MAX_LABEL

PROGRAM_SPARE_S = 20.0
PROGRAM_LIMIT_S = 60
"""Seconds after its sending time at which the host ends a program."""
FIRST_PORT = 20_100
NUTTCP_PAYLOAD_BYTES = 1400
"""UDP payload of nuttcp's packets, unless an MTU is given. Its own 8 kB would be fragmented on most paths."""


@dataclass(frozen=True)
class _Test:
    """One client and its server.

    Attributes:
        pair: number of the pair that it measures; None = background traffic, which is not counted.
        source: host of the client, which sends.
        target: host of the server.
        connections: number of its connections.
        seconds: duration.
    """

    pair: int | None
    source: str
    target: str
    connections: int
    seconds: int


def by_programs(endpoints: Endpoints, engine: str, job: Job, running: ExitStack) -> Sent:
    """Run a server and a client for each pair, or for each connection, and return the clients' results as one.

    Raises:
        AgentError: when a program fails or does not end.
    """
    seconds = max(1, math.ceil(job.seconds))
    beside_s = seconds + math.ceil(BACKGROUND_SPARE_S)
    many = job.connections if job.program_each else 1
    tests = [
        _Test(number, source, target, job.connections // many, seconds)
        for number, (source, target) in enumerate(job.pairs)
        for _ in range(many)
    ]
    tests += [_Test(None, each.source, each.target, each.connections, beside_s) for each in job.background]
    lines = []
    port = FIRST_PORT
    for test in tests:
        address = (
            LOOPBACK if test.source == test.target else job.addresses.get(test.target, endpoints.address(test.target))
        )
        _serve(endpoints, engine, test.target, port, test.seconds, running)
        lines.append(_client(engine, address, port, test, job))
        # nuttcp uses a data port for each of its connections.
        port += 2 + test.connections
    clients = [
        (test, _started(endpoints, test.source, line, beside_s, running))
        for test, line in zip(tests, lines, strict=True)
    ]
    asks = engine == "nuttcp" and job.rate_bps is None
    used = _asked_congestion(endpoints, *job.pairs[0], job, seconds) if asks else ""
    reports: list[tuple[int, Sent]] = []
    end = time.monotonic() + beside_s + PROGRAM_SPARE_S
    for test, client in clients:
        try:
            out, err = client.communicate(timeout=max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AgentError(f"{engine} does not end") from None
        if test.pair is not None:
            reports.append((test.pair, read_iperf3(out, err) if engine == "iperf3" else read_nuttcp(out, err)))
    sent = joined([report for _, report in reports])
    pair_bps = [0.0] * len(job.pairs)
    for number, report in reports:
        pair_bps[number] += report.capacity_bps
    sent = replace(sent, pair_bps=pair_bps)
    if job.program_each:
        sent = replace(sent, connection_cpu=[(report.sender_cpu, report.receiver_cpu) for _, report in reports])
    return replace(sent, congestion=used) if used else sent


def _asked_congestion(endpoints: Endpoints, source: str, target: str, job: Job, seconds: float) -> str:
    """Return the congestion control of a pair's open connections, as `ss` on the sender reports it; empty = unknown."""
    address = LOOPBACK if source == target else job.addresses.get(target, endpoints.address(target))
    script = f"sleep {min(1.0, seconds / 2):g}; ss -tinH state established dst '{address}'"
    return one_of(re.findall(r"^\s+(\w+) wscale", endpoints.ask(source, script), re.MULTILINE))


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


def _client(engine: str, address: str, port: int, test: _Test, job: Job) -> list[str]:
    """Return the command line of a client. Background traffic is TCP with the path's own packets."""
    counted = test.pair is not None
    headers_bytes = 60 if ":" in address else 40
    payload_bytes = job.mtu_bytes - headers_bytes + 12 if job.mtu_bytes else 0
    udp = counted and job.rate_bps is not None
    packets = []
    if engine == "iperf3":
        words = ["iperf3", "-c", address, "-p", str(port), "-t", str(test.seconds), "-P", str(test.connections)]
        if udp:
            packets = ["-u", "-b", str(round(job.rate_bps or 0))] + (
                ["-l", str(payload_bytes)] if payload_bytes else []
            )
        elif counted and job.mtu_bytes:
            packets = ["-M", str(job.mtu_bytes - headers_bytes)]
        control = [] if udp else ["-C", job.congestion]
        return [*words, *packets, *control, "-i", str(max(0.1, round(test.seconds / BINS, 2))), "-J"]
    words = ["nuttcp", "-t", "-P", str(port), "-p", str(port + 1), f"-T{test.seconds}", "-N", str(test.connections)]
    if udp:
        packets = ["-u", f"-R{round((job.rate_bps or 0) / 1e3)}", f"-l{payload_bytes or NUTTCP_PAYLOAD_BYTES}"]
    elif counted and job.mtu_bytes:
        packets = [f"-M{job.mtu_bytes - headers_bytes}"]
    return [*words, *packets, "-fparse", "-v", address]


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
        if "jitter_ms" in end.get("sum", {}):
            return _read_iperf3_udp(report)
        streams = [stream["sender"] | {"got_bps": stream["receiver"]["bits_per_second"]} for stream in end["streams"]]
        cpu = end.get("cpu_utilization_percent", {})
        rtts = [stream["mean_rtt"] / 1e6 for stream in streams if stream.get("mean_rtt")]
        return Sent(
            capacity_bps=float(end["sum_received"]["bits_per_second"]),
            connection_bps=[float(stream["got_bps"]) for stream in streams],
            bins_bps=[float(each["sum"]["bits_per_second"]) for each in report.get("intervals", [])][1:-1],
            bin_s=max((float(each["sum"].get("seconds", 0.0)) for each in report.get("intervals", [])), default=0.0),
            retransmits=end["sum_sent"].get("retransmits"),
            rtt_loaded_s=sum(rtts) / len(rtts) if rtts else None,
            sender_cpu=cpu["host_total"] / 100 if "host_total" in cpu else None,
            receiver_cpu=cpu["remote_total"] / 100 if "remote_total" in cpu else None,
            congestion=str(end.get("sender_tcp_congestion", "")),
            segment_bytes=report.get("start", {}).get("tcp_mss_default"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = (err.strip().splitlines() or [f"{type(error).__name__} in what it printed"])[-1]
        raise AgentError(f"iperf3: {reason[:200]}") from None


def _read_iperf3_udp(report: dict[str, Any]) -> Sent:
    """Return the measured values of a UDP test; iperf3 counts what its server has received."""
    end = report["end"]
    total, cpu = end["sum"], end.get("cpu_utilization_percent", {})
    sent, lost = int(total["packets"]), max(0, int(total["lost_packets"]))
    # Old versions report one sum, whose bytes are the sender's.
    size = float(total["bytes"]) * (sent - lost) / sent if sent else 0.0
    rate_bps = 8 * size / float(total["seconds"])
    late = sum(int(stream["udp"].get("out_of_order", 0)) for stream in end["streams"])
    return Sent(
        capacity_bps=rate_bps,
        connection_bps=[rate_bps],
        sender_cpu=cpu["host_total"] / 100 if "host_total" in cpu else None,
        receiver_cpu=cpu["remote_total"] / 100 if "remote_total" in cpu else None,
        packets=[Packets(sent=sent, lost=lost, late=late, jitter_s=float(total["jitter_ms"]) / 1e3)],
    )


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
        packets = []
        if "data_loss" in receiver:
            count = int(receiver["pkt"])
            packets = [Packets(sent=count, lost=round(count * float(receiver["data_loss"]) / 100))]
        return Sent(
            capacity_bps=rate_bps,
            # nuttcp reports only the sum of several connections.
            connection_bps=[rate_bps] if receiver.get("nstream", sender.get("nstream", "1")) == "1" else [],
            retransmits=int(sender["retrans"]) if "retrans" in sender else None,
            rtt_idle_s=rtt,
            sender_cpu=_percent(sender),
            receiver_cpu=_percent(receiver),
            packets=packets,
            segment_bytes=int(sender["mss"]) if "mss" in sender else None,
        )
    except (IndexError, KeyError, ValueError):
        reason = ((err + out).strip().splitlines() or ["it printed nothing"])[-1]
        raise AgentError(f"nuttcp: {reason[:200]}") from None


def _percent(part: Mapping[str, str]) -> float | None:
    return float(part["cpu"].rstrip("%")) / 100 if "cpu" in part else None


def joined(tests: Sequence[Sent]) -> Sent:
    """Return the results of clients that sent at the same time as one: rates added up, round-trip times averaged."""
    if not tests:
        raise AgentError("no host sent")
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
        packets=[each for test in tests for each in test.packets],
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
