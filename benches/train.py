"""Compares the gated train with Choreo's train and iperf3, on every kind of token bucket: error, refusals, depth, cost.

    make bench-train [ARGS="--quick --busy --runs 5 --seed 1"]

The cases are all combinations of these, in random order, one pair of hosts at a time in a lab:

- rates of 100, 300 and 1000 Mbit/s;
- buckets of 32 kB, 512 kB and 5 MB;
- queues of 5 and 50 ms.

Each run takes a gated train and Choreo's train (10 bursts of 200 packets, its own
formula) one after the other, each after the bucket has filled. iperf3 runs once a case. All are compared as TCP
goodput, 1448/1514 of the wire rate set. `--busy` keeps every core busy with other work; `--record` keeps the trains for
the estimator's tests.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benches.machine import machine
from benches.topologies import star

from gavotte import lab
from gavotte.agents import Budget, Fleet, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.errors import AgentError
from gavotte.formats.inventory import read_inventory
from gavotte.measure import METHODS
from gavotte.terms.goodput import GOODPUT_PER_WIRE

RATES_MBPS = (100, 300, 1000)
BUCKETS_KB = (32, 512, 5120)
QUEUES_MS = (5, 50)
CONFIDENT_AND_WRONG = 0.03
"""A train must never say `path-limited` and err by more than this."""
IPERF3_S = 10
QUICK_IPERF3_S = 2


@dataclass(frozen=True)
class Case:
    """One token bucket in front of a path."""

    rate_mbps: int
    bucket_kb: int
    queue_ms: int

    @property
    def queue_bytes(self) -> int:
        return int(self.rate_mbps * 1e6 / 8 * self.queue_ms / 1e3)

    @property
    def refill_s(self) -> float:
        """Return the time after which the bucket and the queue are as before, with some margin."""
        return 0.1 + self.queue_ms / 1e3 + 1.2 * self.bucket_kb * 1024 * 8 / (self.rate_mbps * 1e6)

    def __str__(self) -> str:
        return f"{self.rate_mbps:>5} {self.bucket_kb:>5} kB {self.queue_ms:>3} ms"


@dataclass
class Found:
    """Results of the runs of one case, or of all. Errors are relative, with their sign."""

    runs: int = 0
    train: list[float] = field(default_factory=list)
    wrong: int = 0
    bucket: list[float] = field(default_factory=list)
    sent_bytes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    choreo: list[float] = field(default_factory=list)
    iperf3: list[float] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Add the runs of another case."""
        self.runs += other.runs
        self.wrong += other.wrong
        for name in ("train", "bucket", "sent_bytes", "seconds", "refusals", "choreo", "iperf3"):
            getattr(self, name).extend(getattr(other, name))

    def row(self, label: str) -> str:
        """Return one line of the table."""
        return (
            f"{label:<20} {self.runs:>3} {len(self.train):>4} {_percent(_middle(self.train)):>9} {_percent(_most(self.train)):>9} "
            f"{self.wrong:>5} {_percent(_middle(self.bucket)):>9} {_percent(_most(self.bucket)):>9} "
            f"{_mean(self.sent_bytes) / 1e6:>7.1f} {1e3 * _mean(self.seconds):>6.0f}   "
            f"{_percent(_middle(self.choreo)):>9} {_percent(_most(self.choreo)):>9}   {_percent(_most(self.iperf3)):>9}"
        )


HEADER = (
    f"{'rate bucket queue':<20} {'n':>3} {'path':>4} {'median':>9} {'max':>9} {'wrong':>5} {'b median':>9} {'b max':>9} "
    f"{'MB':>7} {'ms':>6}   {'choreo':>9} {'max':>9}   {'iperf3':>9}"
)


def _middle(errors: Sequence[float]) -> float:
    return statistics.median(map(abs, errors)) if errors else math.nan


def _most(errors: Sequence[float]) -> float:
    return max(map(abs, errors), default=math.nan)


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else math.nan


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.3f} %"


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            burner = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(burner.kill)
        yield


def probe_once(fleet: Fleet, probe: pb.Probe) -> pb.ProbeReply:
    """Send one probe from h0 to h1."""
    (answer,) = carry_out(fleet, [[Step("h0", "h1", probe)]], round_s=45)
    if answer.reply is None:
        raise AgentError(answer.error)
    return answer.reply


def iperf3_bps(cloud: lab.Session, seconds: int) -> float:
    """Return the goodput of one cubic connection from h0 to h1 as iperf3's receiver counts it."""
    server = cloud.exec("h1", ["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    try:
        for _ in range(50):
            client = ["iperf3", "-c", "h1", "-t", str(seconds), "-C", "cubic", "-J"]
            ran = cloud.run("h0", client, capture_output=True, text=True, timeout=seconds + 30)
            document = json.loads(ran.stdout)
            if "error" not in document:
                return float(document["end"]["sum_received"]["bits_per_second"])
            time.sleep(0.1)
        return math.nan
    finally:
        server.kill()
        server.wait()


def measured(case: Case, arguments: argparse.Namespace) -> Found:
    """Run one case."""
    result = Found()
    rate_bps = case.rate_mbps * 1e6
    goodput_bps = rate_bps * GOODPUT_PER_WIRE
    topology = star([f"{case.rate_mbps}mbit"] * 2, burst=f"{case.bucket_kb}kb", queue=str(case.queue_bytes))
    with lab.session(topology, source="bench-train") as cloud:
        with enrolled(read_inventory(cloud.hosts_file), Budget(max_bytes=0, max_seconds=600)) as fleet:
            for run in range(arguments.runs):
                time.sleep(case.refill_s)
                probe = pb.Probe()
                probe.CopyFrom(METHODS["train"].probe)
                probe.gated_train.keep_trace = arguments.record is not None
                reply = probe_once(fleet, probe)
                train = reply.gated_train
                result.runs += 1
                result.sent_bytes.append(reply.bytes_sent)
                result.seconds.append(reply.seconds)
                if train.verdict == pb.VERDICT_PATH_LIMITED:
                    error = train.rate_bps / rate_bps - 1
                    result.train.append(error)
                    result.wrong += abs(error) > CONFIDENT_AND_WRONG
                    result.bucket.append(train.bucket_bytes / (case.bucket_kb * 1024) - 1)
                else:
                    result.refusals.append(reply.error or pb.Verdict.Name(train.verdict))
                if arguments.record is not None:
                    mode = "busy" if arguments.busy else "quiet"
                    name = f"{case.rate_mbps}mbit_{case.bucket_kb}kb_{case.queue_ms}ms_{mode}_{run}.trace"
                    (arguments.record / name).write_bytes(train.trace)
                if not arguments.skip_others:
                    time.sleep(case.refill_s)
                    method = METHODS["choreo"]
                    reply = probe_once(fleet, method.probe)
                    if not reply.error:
                        result.choreo.append(method.read(reply).goodput_bps / goodput_bps - 1)
        if not arguments.skip_others:
            rate_seen_bps = iperf3_bps(cloud, QUICK_IPERF3_S if arguments.quick else IPERF3_S)
            result.iperf3.append(rate_seen_bps / goodput_bps - 1)
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of each case")
    parser.add_argument("--seed", type=int, default=1, help="of the order of cases")
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES_MBPS), help="Mbit/s")
    parser.add_argument("--busy", action="store_true", help="keep every core busy with other work")
    parser.add_argument("--quick", action="store_true", help=f"iperf3 for {QUICK_IPERF3_S} s instead of {IPERF3_S}")
    parser.add_argument("--skip-others", action="store_true", help="the gated train alone")
    parser.add_argument("--record", type=Path, help="folder to keep the trains in, as text")
    arguments = parser.parse_args()
    if arguments.record is not None:
        arguments.record.mkdir(parents=True, exist_ok=True)
    cases = [Case(r, b, q) for r in arguments.rates for b in BUCKETS_KB for q in QUEUES_MS]
    order = random.Random(arguments.seed).sample(cases, len(cases))
    iperf3_s = 0 if arguments.skip_others else QUICK_IPERF3_S if arguments.quick else IPERF3_S
    print(
        f"machine: {machine()}\nseed: {arguments.seed}; {arguments.runs} runs of each of {len(cases)} cases; "
        f"cores {'kept busy' if arguments.busy else 'left alone'}; iperf3 {iperf3_s} s, once a case\n"
        "path = answered path-limited; wrong = of these off by more than 3 %; b = bucket depth; choreo, iperf3 = error of "
        f"their goodput\n\n{HEADER}"
    )
    values: dict[Case, Found] = {}
    with busy_cores() if arguments.busy else ExitStack():
        for case in order:
            values[case] = measured(case, arguments)
            print(values[case].row(str(case)), flush=True)
    total, deep = Found(), Found()
    for case in cases:
        total.add(values[case])
        if case.bucket_kb >= 512:
            deep.add(values[case])
    print(f"\n{HEADER}\n{total.row('all')}\n{deep.row('buckets >= 512 kB')}")
    print(
        f"\nanswered path-limited: {len(total.train)} of {total.runs} ({100 * len(total.train) / total.runs:.1f} %); "
        f"confident and wrong: {total.wrong}; load at the end {os.getloadavg()[0]:.1f}"
    )
    for refusal in sorted(set(total.refusals)):
        print(f"{total.refusals.count(refusal)} x {refusal}")


if __name__ == "__main__":
    main()
