"""The long run: guarantees change at random, agents are killed and started again, hosts are removed.

    make bench-guarantee ARGS="storm --seconds 600 --seed 1"

X sends to Z while a crowd fills the link. X should have its current guarantee at all times. The output lists the
longest times for which it had less than 95 % of that, the events just before, and shapers that were left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benches.guarantee.figure import Table
from benches.guarantee.stage import BIN_S, TRAFFIC, WARM_S, WIRE, Stand, rate, stand
from benches.machine import machine
from tests.guarantee.stand import agent_of

from gavotte import lab
from gavotte.agents.binary import agent_binary
from gavotte.errors import GavotteError
from gavotte.formats.guarantee import Guarantee
from gavotte.guarantee import apply, clear

CROWD = 4
EGRESS_MBPS = (20, 30, 45)
"""Guarantees that X may have; the crowd has 45 Mbit/s in all."""
PAUSE_S = (0.5, 3.0)
MET = 0.95
SETTLE_S = 1.0
"""Time after a change until the guarantee is owed: TCP and the guarantees must become stable first."""


@dataclass
class Story:
    """Events with their times, and X's guarantee from then on, bit/s; on the monotonic clock."""

    events: list[tuple[float, str]] = field(default_factory=list)
    owed: list[tuple[float, float]] = field(default_factory=list)

    def tell(self, what: str) -> None:
        """Note an event."""
        self.events.append((time.monotonic(), what))

    def before(self, at: float) -> str:
        """Return the last event before a moment."""
        return next((what for when, what in reversed(self.events) if when <= at), "nothing yet")

    def owed_bps(self, at: float) -> float:
        """Return the least rate that X was owed in the second before a moment: a raise counts after that time."""
        now = next((bps for when, bps in reversed(self.owed) if when <= at), 0.0)
        late = next((bps for when, bps in reversed(self.owed) if when <= at - SETTLE_S), 0.0)
        return min(now, late)


class Storm:
    """A lab in which the storm's events happen."""

    def __init__(self, place: Stand, seed: int, stack: ExitStack) -> None:
        self.place, self.random, self.stack = place, random.Random(seed), stack
        self.story = Story()
        self.egress_mbps = 45
        self.dead: dict[str, float] = {}
        self.out: set[str] = set()
        self.started: list[subprocess.Popen[bytes]] = []

    def keep(self) -> None:
        """Apply the current guarantees to all hosts that take part and whose agents run."""
        hosts = [host for host in ("x", *self.crowd, "z", "t") if host not in self.out and host not in self.dead]
        kept = []
        for host in hosts:
            mbps = self.egress_mbps if host == "x" else 45
            kept.append({"host": host, ("ingress" if host in "zt" else "egress"): rate(mbps * 1e6)})
        # The limits that a killed agent left on its host stay until another agent starts.
        wanted = Guarantee.model_validate({"format": "gavotte/guarantee/1", "remains": "static", "guarantee": kept})
        with suppress(GavotteError):
            apply(wanted, self.place.inventory)
            self.story.owed.append((time.monotonic(), self.egress_mbps * 1e6 if {"x", "z"} <= set(hosts) else 0.0))

    @property
    def crowd(self) -> list[str]:
        return [host for host in self.place.senders if host != "x"]

    def change(self) -> None:
        """Give X another guarantee."""
        self.egress_mbps = self.random.choice(EGRESS_MBPS)
        self.story.tell(f"x has {self.egress_mbps} Mbit/s")
        self.keep()

    def kill(self) -> None:
        """Kill the agent of a random host; another is started a while later."""
        host = self.random.choice(["x", *self.crowd, "z", "t"])
        if host in self.dead:
            return
        os.kill(agent_of(self.place.session, host), signal.SIGKILL)
        self.dead[host] = time.monotonic() + self.random.uniform(*PAUSE_S)
        self.story.tell(f"the agent of {host} is killed")
        if host in "xz":
            # Its guarantee ended with the agent, until it is applied again.
            self.story.owed.append((time.monotonic(), 0.0))

    def revive(self) -> None:
        """Start agents whose time has come. They resume what they kept, and the others learn their keys by `keep`."""
        for host in [host for host, at in self.dead.items() if at <= time.monotonic()]:
            path = self.place.session.folder / f"{host}.sock"
            path.unlink(missing_ok=True)
            words = [str(agent_binary()), "serve", "--socket", str(path), "--die-with-parent"]
            self.started.append(
                self.place.session.exec(host, words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            end = time.monotonic() + 5
            while not path.exists() and time.monotonic() < end:
                time.sleep(0.02)
            del self.dead[host]
            self.story.tell(f"the agent of {host} is back")
            self.keep()

    def take_out(self) -> None:
        """Remove one of the crowd from the guarantees, or add it again."""
        host = self.random.choice(self.crowd)
        if host in self.out:
            self.out.remove(host)
            self.story.tell(f"{host} is back among the guarantees")
        else:
            self.out.add(host)
            alone = [each for each in self.place.inventory.host if each.name == host]
            # Its sender stops, too: a host without a guarantee is not limited.
            self.quiet(host)
            clear(self.place.inventory.model_copy(update={"host": alone}))
            self.story.tell(f"{host} is removed from the guarantees")
        self.keep()
        if host not in self.out:
            self.send(host)

    def send(self, host: str) -> None:
        """Make one of the crowd send."""
        words = ["tcp", self.place.address["t"], "5999", "100000", "2"]
        self.senders[host] = self.place.session.exec(host, [sys.executable, "-I", "-S", str(TRAFFIC), *words])

    def quiet(self, host: str) -> None:
        """Stop its sender."""
        sender = self.senders.pop(host, None)
        if sender is not None:
            sender.kill()
            sender.wait()

    def rage(self, seconds: float) -> tuple[list[float], float]:
        """Run for this long. Return X's rate by window, wire bit/s, and when the first window began."""
        self.senders: dict[str, subprocess.Popen[bytes]] = {}
        python = [sys.executable, "-I", "-S", str(TRAFFIC)]
        total_s = seconds + WARM_S + 5
        sinks = [
            self.place.session.exec(
                host, [*python, "sink", "5999", str(total_s), str(BIN_S)], stdout=subprocess.PIPE, text=True
            )
            for host in "zt"
        ]
        for sink in sinks:
            assert sink.stdout is not None
            sink.stdout.readline()
        self.keep()
        for host in self.crowd:
            self.send(host)
        own = self.place.session.exec("x", [*python, "tcp", self.place.address["z"], "5999", str(total_s), "1"])
        time.sleep(WARM_S)
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            time.sleep(self.random.uniform(*PAUSE_S))
            self.revive()
            self.random.choice([self.change, self.change, self.kill, self.take_out])()
        end = time.monotonic()
        while self.dead:
            time.sleep(0.1)
            self.revive()
        for sender in [own, *self.senders.values()]:
            sender.kill()
            sender.wait()
        known = [json.loads(sink.communicate()[0]) for sink in sinks]
        bins = [sum(each) for each in zip(*known[0]["bins"].values(), strict=True)]
        first, last = (int((at - known[0]["begin"]) / BIN_S) for at in (begin, end))
        rates = [8 * WIRE["tcp"] * count / BIN_S for count in bins[first:last]]
        return rates, known[0]["begin"] + first * BIN_S

    def left(self) -> list[str]:
        """Return the shapers that are still on interfaces after all guarantees were cleared."""
        clear(self.place.inventory)
        items = []
        for host in ("x", *self.crowd, "z", "t"):
            words = ["tc", "qdisc", "show", "dev", "eth0"]
            output = self.place.session.run(host, words, capture_output=True, text=True).stdout
            items += [f"{host}: {line}" for line in output.splitlines() if "6776" in line or "clsact" in line]
        return items


def broken(rates: Sequence[float], begin: float, story: Story) -> list[tuple[float, float, str]]:
    """Return stretches in which X had less than it was owed: seconds, time, and event before; longest first."""
    stretches: list[tuple[float, float, str]] = []
    since: float | None = None
    for place, bps in enumerate([*rates, float("inf")]):
        at = begin + place * BIN_S
        short = bps < MET * story.owed_bps(at)
        if short and since is None:
            since = at
        elif not short and since is not None:
            stretches.append((at - since, since - begin, story.before(since + BIN_S)))
            since = None
    return sorted(stretches, reverse=True)


def storm(seconds: float, seed: int, record: Path | None = None) -> tuple[float, list[str]]:
    """Run a storm, print its results, and return the longest time with a broken guarantee and leftover shapers."""
    with ExitStack() as stack, stand(["x", *(f"y{n}" for n in range(CROWD))]) as place:
        stack.enter_context(place.marked())
        raging = Storm(place, seed, stack)
        rates, begin = raging.rage(seconds)
        left = raging.left()
        for process in raging.started:
            process.kill()
            process.wait()
    stretches = broken(rates, begin, raging.story)
    counts = {what: sum(what in event for _, event in raging.story.events) for what in ("has", "killed", "removed")}
    owed = [raging.story.owed_bps(begin + place * BIN_S) for place in range(len(rates))]
    share = sum(bps < MET * due for bps, due in zip(rates, owed, strict=True)) / max(1, sum(due > 0 for due in owed))
    print(
        f"{seconds:g} s: {counts['has']} changes, {counts['killed']} agents killed, {counts['removed']} hosts removed; "
        f"x had less than {100 * MET:g} % of its guarantee in {100 * share:.1f} % of the windows of {BIN_S:g} s"
    )
    longest_s = stretches[0][0] if stretches else 0.0
    table = Table(
        "elasticswitch-lab-storm",
        f"A storm of {seconds:g} s: the longest times with less than {100 * MET:g} % of a guarantee",
        ["after", "for, s", "from, s", "of all windows"],
        {"kind": "bars", "columns": [1], "unit": "s"},
    )
    for length_s, at_s, what in stretches[:10] or [(0.0, 0.0, "nothing: never broken")]:
        table.row(f"{what} ({at_s:.0f} s)", f"{length_s:.1f}", f"{at_s:.1f}", f"{100 * share:.1f} %")
    if record:
        samples = f"{len(rates)} windows of {BIN_S:g} s, {len(raging.story.events)} events"
        table.save(record, samples, str(seed), whole=True)
    print(f"longest: {longest_s:.1f} s; left behind: {'; '.join(left) or 'nothing'}")
    return longest_s, left


def main(words: Sequence[str]) -> None:
    """Run the storm of the command line."""
    parser = argparse.ArgumentParser(prog="make bench-guarantee ARGS=storm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    chosen = parser.parse_args(words)
    if not lab.supported():
        raise SystemExit(f"no lab can run here: {lab.missing()}")
    print(f"{machine()}; seed {chosen.seed}")
    _, left = storm(chosen.seconds, chosen.seed, chosen.record)
    if left:
        raise SystemExit(1)
