"""`gavotte watch`: keeps a Network up to date, and says when it moved."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.options import Json, MaybeHosts, Seed
from gavotte.cli.output import note, sign_of_life
from gavotte.cli.signals import stop_flag
from gavotte.formats.counting import counted

if TYPE_CHECKING:
    from gavotte.watch import Event, Told

COMMAND_S = 600.0
"""A command that takes longer is ended, so that it cannot stop the watch."""

STDERR = 2
"""Where a command's output goes: stdout is for events."""


def watch(
    network: Annotated[Path, typer.Argument(help="The Network to watch.", metavar="N.network.json")],
    hosts: MaybeHosts = None,
    observations: Annotated[
        Path | None,
        typer.Option(
            "--observations",
            help="Follow the times that a program's operations took, with or without --hosts.",
            metavar="FILE.jsonl",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Keep this file up to date with the Network.", metavar="N.network.json"),
    ] = None,
    every: Annotated[
        float, typer.Option("--every", help="Time between measurements.", min=0, metavar="SECONDS")
    ] = 60.0,
    method: Annotated[
        str, typer.Option("--method", help="train, bulk (TCP), pingpong or choreo (packet trains as published).")
    ] = "train",
    band: Annotated[
        float | None,
        typer.Option(
            "--band",
            help="Relative scatter of undisturbed times. By default as the Network says, or else 0.05.",
            min=0,
            metavar="SHARE",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            help="Also calibrate when one operation is off by this share of its expected time, as the RPCA paper does "
            "(1 = 100 %). Most such alarms are spikes.",
            min=0.01,
            metavar="SHARE",
        ),
    ] = None,
    most_moved: Annotated[
        float,
        typer.Option(
            "--most-moved",
            help="When more than this share of all pairs has moved, measure all ten times for a whole new constant. "
            "1 = never.",
            min=0,
            max=1,
            metavar="SHARE",
        ),
    ] = 0.5,
    app: Annotated[
        list[Path] | None,
        typer.Option(
            "--app", help="An application that runs, placed as --placement says. May be repeated.", metavar="A.app.toml"
        ),
    ] = None,
    placement: Annotated[
        Path | None,
        typer.Option(
            "--placement", help="Where the tasks of --app run. Read again at each event.", metavar="P.placement.json"
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--command", help="Run this command at each event, with the event as JSON on its stdin.", metavar="COMMAND"
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--count", help="Stop after so many measurements or, without --hosts, operations.", min=1, metavar="N"
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure a few pairs again and again, tell a change from a spike, and measure anew what has changed."""
    from gavotte.errors import GavotteError
    from gavotte.formats.app import read_app
    from gavotte.formats.network import read_network
    from gavotte.formats.placement import read_placement
    from gavotte.place import Running
    from gavotte.watch import keep

    if bool(app) != (placement is not None):
        raise GavotteError("--app and --placement need each other", hint="use both or neither")
    if hosts is None and observations is None:
        raise typer.BadParameter("use --hosts, --observations or both")
    if threshold is not None and (hosts is None or observations is None):
        raise typer.BadParameter("--threshold needs --observations to watch and --hosts to measure")
    words = None if command is None else _words_of(command)
    belief = read_network(network)
    apps = [read_app(each) for each in app or []]

    def running() -> Running:
        assert placement is not None
        placed = read_placement(placement)
        placed.check_stays("what is watched")
        return Running(apps, placed)

    def tell(told: Told) -> None:
        typer.echo(json.dumps(told.document) if as_json else _sentence(told.event))
        if told.placement is not None and not as_json:
            typer.echo(f"  {told.placement.text}")
        if words is not None:
            _call(words, told.document)

    what = "measurement" if hosts is not None else "operation"
    with stop_flag() as stop, sign_of_life("watching") as living:

        def alive(taken: int, here: int, listed: int) -> None:
            each = f", one every {every:g} s" if hosts is not None else ""
            living(f"{counted(taken, what)} so far{each}, {here} of {counted(listed, 'host')} present")

        kept = keep(
            belief,
            hosts=hosts,
            observations=observations,
            wait=stop.wait,
            tell=tell,
            complain=lambda text: note(f"warning: {text}"),
            every_s=every,
            method=method,
            band=band,
            threshold=threshold,
            most_moved=most_moved,
            alive=alive,
            running=None if placement is None else running,
            output=output,
            count=count,
            seed=seed,
        )
    note(f"{counted(kept.taken, what)}, {kept.hosts - len(kept.gone)} of {counted(kept.hosts, 'host')} present")


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


def _words_of(command: str) -> list[str]:
    """Splits a command as a shell would.

    Raises:
        GavotteError: when nothing is left, or a quotation does not end.
    """
    from gavotte.errors import GavotteError

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise GavotteError(
            f"--command `{command}`: {str(error).lower()}", hint="quote it as a shell wants it"
        ) from None
    if not words:
        raise GavotteError("--command is empty", hint="name a program, or leave out the option")
    return words


def _call(words: list[str], document: dict[str, Any]) -> None:
    """Runs the user's command; what goes wrong with it is told and does not end the watch."""
    try:
        ran = subprocess.run(
            words, input=json.dumps(document), text=True, stdout=STDERR, timeout=COMMAND_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        note(f"warning: --command: {error}")
        return
    if ran.returncode:
        note(f"warning: --command exited with status {ran.returncode}")
