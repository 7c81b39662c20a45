"""Broadcasts in ugly clouds in which a relay fails half-way: how long the others get nothing, and how long it all takes."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benches.broadcast.cases import Case

from gavotte import _core, lab
from gavotte.errors import GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.transfer import BroadcastPlan, BroadcastQuestion, BroadcastSession, plan_broadcast, send

SHARE = 0.5
"""Share of the object that the relay has when it fails."""


LIMIT_S = 300.0
"""Longest time of a broadcast."""


def signalled(session: lab.Session, name: str, number: signal.Signals) -> None:
    """Send a signal to a host's agent."""
    mark = f"{session.folder}/{name}.sock"
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if mark in (folder / "cmdline").read_text().split("\0"):
                    os.kill(int(folder.name), number)


def cut(session: lab.Session, name: str) -> None:
    """Take a host's link down."""
    session.run(name, ["ip", "link", "set", "eth0", "down"])


HAPPENS: dict[str, Callable[[lab.Session, str], None]] = {
    "death": partial(signalled, number=signal.SIGKILL),
    "hang": partial(signalled, number=signal.SIGSTOP),
    "cut": cut,
}
"""What happens to a relay in each case of a fault."""


@dataclass
class Watched:
    """What each receiver had when, as its agent reported it.

    Attributes:
        failed_s: when the relay failed; None = it has not.
        stall_s: by receiver, the longest time since then without a new byte.
    """

    failed_s: float | None = None
    stall_s: dict[str, float] = field(default_factory=dict)
    _grew: dict[str, tuple[float, int]] = field(default_factory=dict)

    def see(self, name: str, held: int) -> None:
        """Take note of a report."""
        now_s = time.monotonic()
        grew_s, before = self._grew.get(name, (now_s, 0))
        if held <= before:
            return
        self._grew[name] = now_s, held
        if self.failed_s is not None:
            silent_s = now_s - max(grew_s, self.failed_s)
            self.stall_s[name] = max(self.stall_s.get(name, 0.0), silent_s)


@dataclass(frozen=True)
class Run:
    """One broadcast next to a relay that fails, or that does not.

    Attributes:
        last_s: when the last of the other receivers had the object, since the source began.
        stall_s: longest time after the fault in which one of the others got no byte.
        stalled: which one.
        changes: what the conductor did.
    """

    last_s: float
    stall_s: float
    stalled: str
    changes: Sequence[str]


def bound_s(cloud: Case, size_bytes: int, *, without: str = "") -> float:
    """Return the least time of any mechanism."""
    names = [name for name in cloud.network.names[1:] if name != without]
    bound = plan_broadcast(cloud.network, "h0", names, size_bytes, mechanism="packing").bound_s
    assert bound is not None
    return bound


def busiest_relay(plan: BroadcastPlan, names: Sequence[str]) -> str:
    """Return the receiver through which most of the others' bytes go; in a mesh, where all pass on, the first."""
    trees = [(tree.rate_bps, tree.edges) for tree in plan.trees]
    if not trees:
        arguments = (plan.ground, plan.bytes, plan.bytes, plan.mechanism, plan.piece_bytes, 1.0, plan.partitions, 1)
        trees = [(1.0, tuple(_core.Conductor(*arguments).edges()))]
    passed = dict.fromkeys(plan.receivers, 0.0)
    for rate_bps, edges in trees:
        parents = {child: parent for parent, child in edges}
        for host in parents:
            above = parents[host]
            while above in parents:
                passed[names[above]] += rate_bps
                above = parents[above]
    return max(passed, key=lambda name: passed[name])


def run(cloud: Case, file: Path, scratch: Path, relay: str, fault: str) -> Run:
    """Broadcast by `auto` in a lab of its own; without a fault if `fault` is empty."""
    watched = Watched()
    with lab.session(cloud.topology, source="bench") as session:

        def watch(name: str, held: int, total: int) -> None:
            if name == relay and held >= SHARE * total and watched.failed_s is None:
                watched.failed_s = time.monotonic()
                if fault:
                    HAPPENS[fault](session, name)
            if name != relay:
                watched.see(name, held)

        result = send(
            BroadcastQuestion(
                str(file),
                read_inventory(session.hosts_file),
                "h0",
                str(scratch / "copy-{host}"),
                network=cloud.network,
                max_seconds=LIMIT_S,
            ),
            BroadcastSession(watch=watch),
        )
    others = [each for each in result.receivers if each.host != relay]
    if lost := {each.host: each.error for each in others if not each.ok}:
        raise GavotteError(f"lost next to {relay}: {lost}; {result.changes}")
    content = file.read_bytes()
    if any(Path(each.path).read_bytes() != content for each in others):
        raise GavotteError("copies differ")
    stalled = max(watched.stall_s, key=lambda name: watched.stall_s[name], default="")
    last_s = max(each.finish_s for each in others if each.finish_s is not None)
    return Run(last_s, watched.stall_s.get(stalled, 0.0), stalled, result.changes)


def compare(number: int, cloud: Case, file: Path, base: Path, faults: Sequence[str]) -> list[tuple[str, Run]]:
    """Run `auto` in one cloud without a fault and with each, and print what the fault costs the others.

    Returns:
        each fault that a broadcast has survived, and its run.
    """
    size_bytes = file.stat().st_size
    plan = plan_broadcast(cloud.network, "h0", cloud.network.names[1:], size_bytes)
    relay = busiest_relay(plan, cloud.network.names)
    least_s = bound_s(cloud, size_bytes, without=relay)
    print(
        f"cloud {number}: {len(plan.receivers)} receivers, {plan.mechanism} of {max(1, len(plan.trees))}, bound "
        f"{bound_s(cloud, size_bytes):.2f} s, without {relay} {least_s:.2f} s"
    )
    done = []
    healthy: Run | None = None
    for fault in ("", *faults):
        scratch = base / f"{number}-{fault}"
        scratch.mkdir()
        try:
            each = run(cloud, file, scratch, relay, fault)
        except GavotteError as error:
            print(f"  {fault or 'no fault'}: failed: {error}", flush=True)
            continue
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if healthy is None:
            healthy = each
        print(
            f"  {fault or 'no fault':8} {each.last_s:6.2f} s, {each.last_s / least_s:.2f} x the bound without {relay}, "
            f"{each.last_s - healthy.last_s:+.2f} s; longest stall {each.stall_s:.2f} s ({each.stalled})",
            flush=True,
        )
        for line in each.changes:
            print(f"    {line}", flush=True)
        if fault:
            done.append((fault, each))
    return done
