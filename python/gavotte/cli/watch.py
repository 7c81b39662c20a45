"""`gavotte watch`: keeps a Network up to date, and says when it moved."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.output import Hosts, Json, Seed, note

if TYPE_CHECKING:
    from gavotte.watch import Event
    from gavotte.watch.detect import Edge

COMMAND_S = 600.0
"""A command that takes longer is ended, so that it cannot stop the watch."""


def watch(
    network: Annotated[Path, typer.Argument(help="What is believed now.", metavar="N.network.json")],
    hosts: Hosts,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Keep the Network up to date here.", metavar="N.network.json")
    ] = None,
    every: Annotated[float, typer.Option("--every", help="Seconds between measurements.", min=0)] = 60.0,
    method: Annotated[str, typer.Option("--method", help="How to measure: train, bulk, pingpong or choreo.")] = "train",
    band: Annotated[
        float, typer.Option("--band", help="How much undisturbed times scatter, as `gavotte model` tells it.", min=0)
    ] = 0.05,
    app: Annotated[
        Path | None, typer.Option("--app", help="An application that runs; with --placement.", metavar="A.app.toml")
    ] = None,
    placement: Annotated[
        Path | None, typer.Option("--placement", help="Where its tasks are.", metavar="P.placement.json")
    ] = None,
    command: Annotated[
        str | None, typer.Option("--command", help="Run this at each event, with the event as JSON on its stdin.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", help="Stop after so many measurements.", min=1)] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure one pair out of and into each host, again and again, and calibrate what moved; ends at a signal."""
    from gavotte.errors import GavotteError
    from gavotte.formats.app import read_app
    from gavotte.formats.network import read_network, write_network
    from gavotte.formats.placement import read_placement
    from gavotte.measure import METHODS
    from gavotte.watch import Watcher
    from gavotte.watch import watch as keep_watch
    from gavotte.watch.belief import expected_times, renewed
    from gavotte.watch.running import Running, review

    if (app is None) != (placement is None):
        raise GavotteError("--app and --placement belong together", hint="give both or none")
    belief = read_network(network)
    running = None
    if app is not None and placement is not None:
        running = Running(read_app(app), read_placement(placement).assignment)
    if method not in METHODS:
        raise GavotteError(f"no method {method!r}", hint=f"choose one of {', '.join(METHODS)}")
    probe = _Probe(hosts, method, seed, {host.name for host in belief.hosts})
    watcher = Watcher(expected_times(belief), band, probe.measure, seed=seed)

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

    with _stop_flag() as stop:
        taken = keep_watch(watcher, every_s=every, wait=stop.wait, report=report, hosts=probe.hosts, count=count)
    note(f"{taken} measurements, {len(watcher.hosts) - len(watcher.gone)} of {len(watcher.hosts)} hosts there")


class _Probe:
    """Measures pairs of an inventory that may change between two calls."""

    def __init__(self, source: str, method: str, seed: int, known: Collection[str]) -> None:
        from gavotte.agents import resolve_hosts

        self._source = source
        self._method = method
        self._seed = seed
        self._known = set(known)
        self._told: set[str] = set()
        self._inventory = resolve_hosts(source)

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
            history = take(self._inventory, method=self._method, pairs=asked, again=False, seed=self._seed).history
        except GavotteError as error:  # all agents gone, for now
            note(f"warning: {error}")
            return {}
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
