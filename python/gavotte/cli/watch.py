"""`gavotte watch`: keeps a Network up to date, and says when it moved."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.output import Json, Seed, note

if TYPE_CHECKING:
    from gavotte.agents import Reach
    from gavotte.formats.inventory import Inventory
    from gavotte.watch import Event
    from gavotte.watch.detect import Edge

USUAL_BAND = 0.05

LEAST_BAND = 0.03
"""Snapshots taken in one go scatter less than those of another day, which repeat to 3 to 5 %."""

LOOK_S = 0.5
"""How often to look for new observations."""

COMMAND_S = 600.0
"""A command that takes longer is ended, so that it cannot stop the watch."""


def watch(
    network: Annotated[Path, typer.Argument(help="What is believed now.", metavar="N.network.json")],
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", help="Measure these: lab, a *.hosts.toml, ssh-config:GLOB, slurm, or mpi:HOSTFILE."),
    ] = None,
    observations: Annotated[
        Path | None,
        typer.Option(
            "--observations",
            help="Follow the times that gavotte.mpi.observing writes, beside --hosts or instead.",
            metavar="FILE.jsonl",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Keep the Network up to date here.", metavar="N.network.json")
    ] = None,
    every: Annotated[float, typer.Option("--every", help="Seconds between measurements.", min=0)] = 60.0,
    method: Annotated[str, typer.Option("--method", help="How to measure: train, bulk, pingpong or choreo.")] = "train",
    band: Annotated[
        float | None,
        typer.Option("--band", help="How much undisturbed times scatter; else as the Network says, or 0.05.", min=0),
    ] = None,
    app: Annotated[
        Path | None, typer.Option("--app", help="An application that runs; with --placement.", metavar="A.app.toml")
    ] = None,
    placement: Annotated[
        Path | None, typer.Option("--placement", help="Where its tasks are.", metavar="P.placement.json")
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", help="Run this at each event, with the event as JSON on its stdin.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", help="Stop after so many measurements; without --hosts, operations.", min=1)
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure one pair out of and into each host again and again, or follow operations; calibrate what moved."""
    from gavotte.errors import GavotteError
    from gavotte.formats.app import read_app
    from gavotte.formats.network import read_network, write_network
    from gavotte.formats.placement import read_placement
    from gavotte.measure import METHODS
    from gavotte.watch import Tail, Watcher, follow
    from gavotte.watch import watch as keep_watch
    from gavotte.watch.belief import expected_times, renewed
    from gavotte.watch.running import Running, review

    if (app is None) != (placement is None):
        raise GavotteError("--app and --placement belong together", hint="give both or none")
    if hosts is None and observations is None:
        raise typer.BadParameter("give --hosts, --observations, or both")
    belief = read_network(network)
    running = None
    if app is not None and placement is not None:
        running = Running(read_app(app), read_placement(placement).assignment)
    if method not in METHODS:
        raise GavotteError(f"no method {method!r}", hint=f"choose one of {', '.join(METHODS)}")
    probe = None if hosts is None else _Probe(hosts, method, seed, {host.name for host in belief.hosts})
    width = band if band is not None else USUAL_BAND if belief.band is None else max(LEAST_BAND, belief.band)
    watcher = Watcher(expected_times(belief), width, None if probe is None else probe.measure, seed=seed)
    tail = None if observations is None else Tail(observations, lambda text: note(f"warning: {text}"))
    if observations is not None and not observations.exists():
        note(f"{observations} is not there yet; waiting for it")

    def report(event: Event) -> None:
        nonlocal belief
        before, belief = belief, renewed(belief, event)
        document: dict[str, Any] = vars(event) | {"moves": [vars(move) for move in event.moves]}
        advice = review(before, belief, running, seed=seed) if running is not None and event.moves else None
        if advice is not None:
            document["placement"] = vars(advice)
        if output is not None:
            write_network(output, belief)
        typer.echo(json.dumps(document) if as_json else _words(event))
        if advice is not None and not as_json:
            typer.echo(f"  {advice.text}")
        if command is not None:
            _call(command, document)

    with _stop_flag() as stop, closing(probe) if probe is not None else nullcontext():

        def pause(seconds: float) -> bool:
            """Waits, and takes the operations that end meanwhile."""
            if tail is None:
                return stop.wait(seconds)
            end_s = time.monotonic() + seconds
            while True:
                for operation in tail.read():
                    for event in watcher.observe(operation):
                        report(event)
                left_s = end_s - time.monotonic()
                if stop.wait(max(0.0, min(LOOK_S, left_s))) or left_s <= LOOK_S:
                    return stop.is_set()

        if probe is not None:
            taken = keep_watch(watcher, every_s=every, wait=pause, report=report, hosts=probe.hosts, count=count)
        else:
            assert tail is not None
            taken = follow(watcher, tail, every_s=LOOK_S, wait=stop.wait, report=report, count=count)
    what = "measurements" if probe is not None else "operations"
    note(f"{taken} {what}, {len(watcher.hosts) - len(watcher.gone)} of {len(watcher.hosts)} hosts there")


class _Probe:
    """Measures pairs of an inventory that may change between two calls.

    The roads to the agents stay open from one call to the next, while all of them answer: over SSH, opening them takes
    longer than measuring. The agents themselves are held for each call alone, so that others may use them in between.
    """

    def __init__(self, source: str, method: str, seed: int, known: Collection[str]) -> None:
        from gavotte.agents import resolve_hosts

        self._source = source
        self._method = method
        self._seed = seed
        self._known = set(known)
        self._told: set[str] = set()
        self._inventory = resolve_hosts(source)
        self._roads = ExitStack()
        self._reach: tuple[Inventory, Reach] | None = None

    def close(self) -> None:
        """Closes the roads; the next call opens them again."""
        self._reach = None
        self._roads.close()

    def _open(self) -> Reach:
        from gavotte.agents import reaching

        if self._reach is None or self._reach[0] != self._inventory:
            self.close()
            self._reach = (self._inventory, self._roads.enter_context(reaching(self._inventory)))
        return self._reach[1]

    def hosts(self) -> list[str]:
        """Who is listed now, of the Network's hosts; as before where the list cannot be read."""
        from gavotte.agents import resolve_hosts
        from gavotte.errors import GavotteError

        try:
            self._inventory = resolve_hosts(self._source)
        except GavotteError as error:
            note(f"warning: {error}")
        listed = set(self._inventory.names)
        if new := sorted(listed - self._known - self._told):
            note(f"warning: not in the Network, measure and model again to place on them: {', '.join(new)}")
            self._told |= set(new)
        return sorted(listed & self._known)

    def measure(self, pairs: Collection[Edge]) -> Mapping[Edge, float]:
        """Seconds of one transfer on each pair that answered."""
        import numpy as np

        from gavotte.errors import GavotteError
        from gavotte.measure import measure as take
        from gavotte.model import transfer_times

        there = set(self._inventory.names)
        asked = [(source, target) for source, target in pairs if source in there and target in there]
        if not asked:
            return {}
        self._seed += 1
        try:
            found = take(
                self._inventory, method=self._method, pairs=asked, again=False, seed=self._seed, reach=self._open()
            )
        except GavotteError as error:  # all agents gone, for now
            self.close()
            note(f"warning: {error}")
            return {}
        if found.missing or found.lost:
            self.close()
        history = found.history
        times = transfer_times(history)[0]
        at = {name: number for number, name in enumerate(history.hosts)}
        took = {(s, t): float(times[at[s], at[t]]) for s, t in asked}
        return {edge: seconds for edge, seconds in took.items() if np.isfinite(seconds)}


@contextmanager
def _stop_flag() -> Iterator[threading.Event]:
    """An event that the first signal sets; the second does what signals did before."""
    flag = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(_number: int, _frame: object) -> None:
        flag.set()
        restore()

    for number in before:
        signal.signal(number, stop)
    try:
        yield flag
    finally:
        restore()


def _words(event: Event) -> str:
    hosts = ", ".join(event.hosts)
    if event.kind == "moved":
        factors = sorted(move.after_s / move.before_s for move in event.moves if move.before_s)
        middle = f", times x {factors[len(factors) // 2]:.2f}" if factors else ""
        if not event.calibrated:
            return f"moved: {len(event.moves)} pairs by what operations took, of {hosts}{middle}"
        return f"moved: {len(event.moves)} of {event.calibrated} pairs measured again, of {hosts}{middle}"
    if event.kind == "false-alarm":
        return f"false alarm: {event.calibrated} pairs of {hosts} are as before"
    return f"{event.kind}: {hosts}"


def _call(command: str, document: dict[str, Any]) -> None:
    """Runs the user's command; what goes wrong with it is told and does not end the watch."""
    try:
        ran = subprocess.run(
            shlex.split(command), input=json.dumps(document), text=True, stdout=None, timeout=COMMAND_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        note(f"warning: --command: {error}")
        return
    if ran.returncode:
        note(f"warning: --command left with status {ran.returncode}")
