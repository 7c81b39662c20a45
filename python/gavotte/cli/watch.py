"""`gavotte watch`: keep a Network up to date, and report when it changed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json, MaybeHosts, Seed
from gavotte.cli.output import note, warn
from gavotte.cli.progress import sign_of_life
from gavotte.cli.shell_words import words_of
from gavotte.cli.signals import stop_flag
from gavotte.cli.writing import to_write
from gavotte.formats.parts.counting import counted

if TYPE_CHECKING:
    from gavotte.place import Running
    from gavotte.store import Store
    from gavotte.watch import Event, Executor, Notice

COMMAND_S = 600.0
"""A command that takes longer is ended, so that it cannot stop the watch."""

STDERR = 2
"""Destination of a command's output: stdout is for events."""


@dataclass(frozen=True)
class QuestionOptions:
    """What to watch, by what, and what counts as a change."""

    hosts: MaybeHosts = None
    observations: Path | None = option(
        "Also follow the measured times of a program's operations; works without --hosts too.", "FILE.jsonl"
    )
    every: float = option("Time between measurements.", "SECONDS", default=60.0, min=0)
    method: str = option("Probe of each path. bulk is TCP, and choreo is packet trains as published.", default="train")
    band: float | None = option(
        "Relative scatter of undisturbed times. By default the Network's own, else 0.05.", "SHARE", min=0
    )
    threshold: float | None = option(
        "Also calibrate when one operation is off by this share of its expected time, as the RPCA paper does "
        "(1 = 100 %). Most such alarms are spikes.",
        "SHARE",
        min=0.01,
    )
    most_moved: float = option(
        "When more than this share of all pairs has moved, measure all ten times for a whole new constant. 1 = never.",
        "SHARE",
        default=0.5,
        min=0,
        max=1,
    )
    count: int | None = option("Stop after this many measurements or, without --hosts, operations.", "N", min=1)
    seed: Seed = 0


@dataclass(frozen=True)
class RunningOptions:
    """The applications that run."""

    app: list[Path] | None = option("A running application, placed as in --placement. May be repeated.", "A.app.toml")
    placement: Path | None = option("Where the tasks of --app run. Read again at each event.", "P.placement.json")


@dataclass(frozen=True)
class OutputOptions:
    """Where events and the Network go."""

    output: Annotated[
        Path | None, to_write("Keep this file up to date with the Network.", "N.network.json", updates=True)
    ] = None
    command: str | None = option("Run this command at each event, with the event as JSON on its stdin.", "COMMAND")
    execute: str | None = option(
        "Run this command when a new placement is advised. {placement} is replaced by the name of its file.",
        "COMMAND",
        "--exec",
    )
    exec_every: float = option("Start --exec at most once in this time.", "SECONDS", default=600.0, min=0)
    dry_run: bool = option("Print what --exec would run, and do not run it.", default=False)
    store: str | None = option("Keep each event in this store, where `gavotte serve` shows it.", "URL")
    as_json: Json = False


@declared
def watch(
    network: Annotated[Path, typer.Argument(help="The Network to watch.", metavar="N.network.json")],
    asked: QuestionOptions,
    placed: RunningOptions,
    writing: OutputOptions,
) -> None:
    """Keep measuring a few pairs, distinguish a change from a spike, and measure again what has changed."""
    from gavotte.errors import GavotteError
    from gavotte.formats.network import read_network
    from gavotte.watch import WatchQuestion, WatchSession, keep

    if bool(placed.app) != (placed.placement is not None):
        raise GavotteError("--app and --placement need each other", hint="use both or neither")
    if asked.hosts is None and asked.observations is None:
        raise typer.BadParameter("use --hosts, --observations or both")
    if asked.threshold is not None and (asked.hosts is None or asked.observations is None):
        raise typer.BadParameter("--threshold needs --observations to watch and --hosts to measure")
    if writing.execute is not None and placed.placement is None:
        raise typer.BadParameter("--exec needs --app and --placement, since nothing else is placed again")
    if writing.dry_run and writing.execute is None:
        raise typer.BadParameter("--dry-run is for --exec")
    question = WatchQuestion(
        read_network(network),
        asked.hosts,
        asked.observations,
        every_s=asked.every,
        method=asked.method,
        band=asked.band,
        threshold=asked.threshold,
        most_moved=asked.most_moved,
        count=asked.count,
        seed=asked.seed,
    )
    words = None if writing.command is None else words_of(writing.command, "--command")
    running = _running(placed)
    executor = _executor(writing, placed)
    store = None if writing.store is None else _opened(writing.store)

    def notify(item: Notice) -> None:
        typer.echo(json.dumps(item.document) if writing.as_json else _sentence(item.event))
        if item.placement is not None and not writing.as_json:
            typer.echo(f"  {item.placement.text}")
        if store is not None:
            _keep(store, item)
        if words is not None:
            _call(words, item.document)
        if executor is not None and item.placement is not None:
            executor.advise(item.placement.advised)

    what = "measurement" if asked.hosts is not None else "operation"
    with stop_flag() as stop, sign_of_life("watching", ends=asked.count is not None) as living:

        def alive(taken: int, here: int, listed: int) -> None:
            each = f", one every {asked.every:g} s" if asked.hosts is not None else ""
            so_far = (
                f"{counted(taken, what)} so far" if asked.count is None else f"{taken} of {counted(asked.count, what)}"
            )
            living(f"{so_far}{each}, {here} of {counted(listed, 'host')} present")

        session = WatchSession(stop.wait, notify, lambda text: warn([text]), alive, running, writing.output)
        try:
            end = keep(question, session)
        except BaseException:
            stop.set()
            raise
        finally:
            if executor is not None:
                executor.close(stop)
            if store is not None:
                store.close()
    note(f"{counted(end.taken, what)}, {end.hosts - len(end.gone)} of {counted(end.hosts, 'host')} present")


def _opened(url: str) -> Store:
    """Return the store that keeps events."""
    from gavotte.store import open_store

    return open_store(url)


def _keep(store: Store, item: Notice) -> None:
    """Keep an event in the store. A failure is reported and does not end the watch."""
    from gavotte.formats.record import PAIRS, WATCH, Record
    from gavotte.store import StoreError

    event = item.event
    labels = {
        "event": event.kind,
        "hosts": ",".join(event.hosts),
        "text": _sentence(event),
        "advice": "" if item.placement is None else item.placement.text,
    }
    value = float(event.calibrated or len(event.moves))
    try:
        store.add_records([Record(kind=WATCH, metric=PAIRS, value=value, time_s=time.time(), labels=labels)])
    except StoreError as error:
        warn([f"--store: {error}"])


def _running(placed: RunningOptions) -> Callable[[], Running] | None:
    """Return a function that reads where the applications run now; None if none are given."""
    from gavotte.formats.app import read_app
    from gavotte.formats.placement import read_placement
    from gavotte.place import Running

    path = placed.placement
    if path is None:
        return None
    apps = [read_app(each) for each in placed.app or []]

    def running() -> Running:
        placement = read_placement(path)
        placement.check_stays("--hosts or --observations")
        return Running(apps, placement)

    return running


def _sentence(event: Event) -> str:
    from gavotte.watch.expecting import MOVED

    hosts = ", ".join(event.hosts)
    by = ", threshold passed" if event.alarm == "threshold" else ""
    if event.kind == "moved":
        factors = sorted(move.after_s / move.before_s for move in event.moves if move.before_s)
        middle = f", times x {factors[len(factors) // 2]:.2f}" if factors else ""
        whole = f", all of {', '.join(event.movers)}" if event.movers else ""
        if not event.calibrated:
            return f"moved: {counted(len(event.moves), 'pair')} of {hosts}, as operations show{middle}"
        pairs = counted(event.calibrated, "pair")
        return f"moved: {len(event.moves)} of {pairs} of {hosts} measured again{whole}{middle}{by}"
    if event.kind == "renewed":
        changed = sum(move.before_s is None or abs(move.after_s / move.before_s - 1) > MOVED for move in event.moves)
        return f"renewed: all {event.calibrated} pairs were measured, {changed} differ by over {100 * MOVED:.0f} %"
    if event.kind == "false-alarm":
        return f"false alarm: {event.calibrated} pairs of {hosts} are as before{by}"
    return f"{event.kind}: {hosts}"


def _executor(writing: OutputOptions, placed: RunningOptions) -> Executor | None:
    """Return what runs --exec, which writes placements next to the running one; None if it is not given."""
    from gavotte.watch import Execution, Executor

    if writing.execute is None or placed.placement is None:
        return None
    stem = placed.placement.name.removesuffix(".json").removesuffix(".placement")
    file = placed.placement.absolute().with_name(f"{stem}.advised.placement.json")
    words = words_of(writing.execute, "--exec")
    execution = Execution(words, file, writing.exec_every, writing.dry_run)
    return Executor(execution, note, lambda text: warn([text]))


def _call(words: list[str], document: dict[str, Any]) -> None:
    """Run the user's command. A failure is reported and does not end the watch."""
    try:
        ran = subprocess.run(
            words, input=json.dumps(document), text=True, stdout=STDERR, timeout=COMMAND_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        warn([f"--command: {error}"])
        return
    if ran.returncode:
        warn([f"--command exited with status {ran.returncode}"])
