"""`gavotte measure`: measure the paths between hosts and write a History."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from gavotte.cli import lists
from gavotte.cli.budget import read_limits
from gavotte.cli.by_tcp import warn_of_tcp
from gavotte.cli.calibrate import calibrate
from gavotte.cli.cross import cross
from gavotte.cli.measurement import document as measurement_document
from gavotte.cli.measurement import print_result
from gavotte.cli.options import (
    AssumedRate,
    Budget,
    DryRun,
    Json,
    MaybeHosts,
    Pilot,
    PricePerGb,
    Seed,
    TakeOver,
    read_rate,
    to_write,
)
from gavotte.cli.output import emit_json, note, progress, warn_beside
from gavotte.cli.pilot import pilot_cost
from gavotte.cli.sharing import document, experiment, sharing
from gavotte.formats.counting import counted
from gavotte.formats.history import History
from gavotte.formats.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.measure import Cost, Method
    from gavotte.measure.plan.methods import Engine

DEFAULT = "train"


measure = typer.Typer(
    cls=lists.group("measure"),
    help="Measure every directed path between the hosts.",
    epilog="Example: gavotte measure --hosts lab --sharing -o cloud.npz",
    invoke_without_command=True,
)


@measure.callback()
def paths(
    context: typer.Context,
    hosts: MaybeHosts = None,
    output: Annotated[Path | None, to_write("Write the History to this file.", "H.npz")] = None,
    method: Annotated[
        str, typer.Option("--method", help="Probe of each path. bulk is TCP, and choreo is packet trains as published.")
    ] = DEFAULT,
    flows: Annotated[
        int, typer.Option("--flows", help="Parallel connections, for bulk.", min=1, max=64, metavar="N")
    ] = 1,
    seconds: Annotated[
        float,
        typer.Option("--seconds", help="Duration of each transfer, for bulk.", min=0.1, max=600, metavar="SECONDS"),
    ] = 1.0,
    engine: Annotated[
        str,
        typer.Option("--engine", help="Program that sends and counts, for bulk. iperf3 is the hosts' own."),
    ] = "gavotte",
    bursts: Annotated[
        int | None, typer.Option("--bursts", help="Bursts of a train, for choreo (10).", min=1, max=1000, metavar="K")
    ] = None,
    packets: Annotated[
        int | None,
        typer.Option("--packets", help="Packets of a burst, for choreo (200).", min=2, max=20_000, metavar="B"),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration",
            help="Read bursts and packets from this file of `gavotte measure calibrate -o`.",
            metavar="C.json",
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", help="Number of snapshots.", min=1, metavar="N")] = 1,
    every: Annotated[
        float, typer.Option("--every", help="Time between the starts of two snapshots.", min=0, metavar="SECONDS")
    ] = 0.0,
    until_stable: Annotated[
        bool,
        typer.Option("--until-stable", help="Stop before --count once another snapshot would not change any decision."),
    ] = False,
    pairs: Annotated[
        str | None,
        typer.Option(
            "--pairs",
            help="Measure only this many pairs from and to each host; sparse = 2 log2 N. See `gavotte model --fill`.",
            metavar="sparse|COUNT",
        ),
    ] = None,
    seed: Seed = 0,
    budget: Budget = None,
    price_per_gb: PricePerGb = 0.0,
    network: Annotated[
        Path | None,
        typer.Option(
            "--network",
            help="An earlier Network: do not fill its shared links with two probes at once.",
            metavar="N.network.json",
        ),
    ] = None,
    assumed_rate: AssumedRate = None,
    share: Annotated[
        bool, typer.Option("--sharing", help="Afterwards find out by experiments which pairs share a bottleneck.")
    ] = False,
    again: Annotated[bool, typer.Option(help="Measure doubtful paths again, each alone.")] = True,
    series: Annotated[
        str | None, typer.Option("--series", help="Add the snapshots to this series of the store.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", help="The store for --series; see `gavotte history list --help`.", metavar="URL"),
    ] = None,
    take_over: TakeOver = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the interrupted measurement of the file given by -o.")
    ] = False,
    dry_run: DryRun = False,
    pilot: Pilot = False,
    as_json: Json = False,
) -> None:
    """Measure every directed path between the hosts."""
    if context.invoked_subcommand is not None:
        return
    if hosts is None:
        raise typer.BadParameter("--hosts is missing: use e.g. --hosts lab")
    from gavotte.agents import resolve_hosts
    from gavotte.errors import GavotteError
    from gavotte.formats.history import check_history_path, write_history
    from gavotte.formats.network import read_network
    from gavotte.measure import METHODS, bulk, expected_cost, journal_path, plan_measurement
    from gavotte.measure import measure as take
    from gavotte.measure.adapt.widening import FAST_BPS
    from gavotte.measure.plan.methods import ASSUMED_RATE_BPS
    from gavotte.measure.sharing import cost_of_sharing, foreseen

    if output is not None:
        check_history_path(output)
    inventory = resolve_hosts(hosts)
    limits = read_limits(budget or [], price_per_gb)
    if method not in METHODS:
        raise GavotteError(f"unknown method `{method}`", hint=f"use one of {', '.join(METHODS)}")
    if engine != "gavotte" and method != "bulk":
        raise GavotteError(f"--engine {engine} cannot measure with --method {method}", hint="use --method bulk")
    if share and pairs is not None:
        raise GavotteError("--sharing needs the rate of every pair", hint="leave out --pairs")
    if pilot and not (dry_run and network is None):
        raise GavotteError(
            "--pilot predicts the cost of hosts that no Network covers", hint="add --dry-run, and leave out --network"
        )
    if store is not None and series is None:
        raise GavotteError("--store needs a series", hint="name one with --series")
    if method == "bulk":
        how = bulk(flows=flows, seconds=seconds, engine=_engine(engine))
    else:
        how = _trains(method, bursts, packets, calibration) or METHODS[method]
    net = read_network(network) if network is not None else None
    some = None if pairs is None else _some(pairs, inventory.names, seed)
    assumed_bps = ASSUMED_RATE_BPS if assumed_rate is None else read_rate("--assumed-rate", assumed_rate)
    todo = plan_measurement(
        inventory.names,
        how,
        count=count,
        every_s=every,
        seed=seed,
        known=net,
        assumed_bps=assumed_bps,
        pairs=some,
    )
    cost = expected_cost(todo.within(limits), inventory, net, limits)
    what = f"{count} snapshot{'s' * (count > 1)}"
    sent: dict[str, object] | None = None
    if pilot:
        todo, cost, sent = pilot_cost(inventory, todo, limits, sharing=share, take_over=take_over)
        what += " and experiments" * share
    elif share:
        cost += cost_of_sharing(
            foreseen(inventory.names, net, assumed_bps=assumed_bps, method=how.name),
            seed=seed,
            price_per_gb=price_per_gb,
            known=net,
        )
        what += " and experiments"
    money = f", about {cost.money:.2f} in money" if price_per_gb else ""
    most_bytes = min(cost.usual_max_bytes, limits.bytes or cost.max_bytes)
    note(
        f"{todo.paths} paths in {len(todo.first)} rounds, {what}: "
        f"about {format_bytes(cost.bytes)}, at most {format_bytes(most_bytes)}, about {cost.seconds:.1f} s and "
        f"at most {cost.max_seconds:.1f} s where paths are slow and share links{money}, seed {seed}"
    )
    if cost.fast_bytes and limits.bytes is None:
        note(
            f"up to {format_bytes(cost.fast_bytes)} more, only if paths turn out to be faster than trains can measure "
            f"(from {format_rate(FAST_BPS)} on)"
        )
    limits.check(cost)
    if dry_run:
        if net is None and assumed_rate is None and not pilot:
            note(
                f"without a Network each path is assumed to carry {format_rate(assumed_bps)}; "
                "give your rate with --assumed-rate, or measure a few with --pilot"
            )
        if as_json:
            emit_json(
                {
                    "paths": todo.paths,
                    "rounds": len(todo.first),
                    "snapshots": count,
                    "bytes": cost.bytes,
                    "max_bytes": cost.max_bytes,
                    "fast_bytes": cost.fast_bytes,
                    "seconds": cost.seconds,
                    "max_seconds": cost.max_seconds,
                    "money": cost.money,
                    "seed": seed,
                    "pilot": sent,
                }
            )
        return
    if resume and output is None:
        raise GavotteError("--resume needs the file that was being measured", hint="name it with -o")
    journal = None if output is None else journal_path(output)
    with progress("measuring") as advance, _resumable(journal):
        result = take(
            inventory,
            method=how,
            count=count,
            every_s=every,
            seed=seed,
            again=again,
            limits=limits,
            known=net,
            assumed_bps=assumed_bps,
            journal=journal,
            resume=resume,
            progress=advance,
            enough=_stable(seed) if until_stable else None,
            pairs=some,
            take_over=take_over,
        )
    spare = None if output is None else _written(output, result.history, whole=result.answered == result.paths)
    shared: dict[str, object] | None = None
    if share:
        completed, experiments = experiment(inventory, result.history, seed=seed)
        result, shared = replace(result, history=completed), document(experiments)
        if output is not None:
            write_history(spare or output, completed)
    if series is not None and result.history.answered:
        from gavotte.store import record_measurement

        added = record_measurement(series, result.history, store=store)
        note(f"added {added.snapshots} to series {added.series}")
    if as_json:
        emit_json(measurement_document(result, method, output) | {"sharing": shared})
    else:
        print_result(result)
    if until_stable:
        stopped = result.history.snapshots
        why = "decisions have settled" if stopped < count else "decisions did not settle earlier"
        note(f"stopped after {stopped} of {counted(count, 'snapshot')}: {why}")
    for host, reason in result.missing.items():
        note(f"warning: {host}: {reason}")
    for host, reason in result.lost.items():
        note(f"warning: lost {host}: {reason}")
    warn_beside(result.beside, "rates may be low")
    if result.untested:
        link, more = result.untested[0], len(result.untested) - 1
        note(
            f"warning: no pairs across {link}{f' and {more} more' * (more > 0)} sent at the same time, so whether "
            "hosts share it is unknown; measure again, or with --sharing"
        )
    if result.doubtful:
        (source, target), more = result.doubtful[0], len(result.doubtful) - 1
        note(
            f"warning: {source} to {target}{f' and {more} more' * (more > 0)} may carry more: other probes ran at the "
            "same time, and the budget left nothing to measure them alone"
        )
    warn_of_tcp(result.history)
    if result.busy:
        (source, target), more = result.busy[0], len(result.busy) - 1
        note(
            f"warning: other traffic fills {source} to {target}{f' and {more} more' * (more > 0)}; the rate shown is "
            "what TCP gets alongside it; measure again when it has ended"
        )
    if result.lowered:
        (source, target), payload_bytes = next(iter(result.lowered.items()))
        more = len(result.lowered) - 1
        note(
            f"warning: packets from {source} to {target}{f' and on {more} more paths' * (more > 0)} had "
            f"{payload_bytes} bytes instead of {result.payload_bytes}: the path's MTU allows no more"
        )
    for failure in result.failures[:20]:
        note(f"warning: {failure.source} to {failure.target}: {failure.reason}")
    if any(failure.failure in ("unreachable", "vanished") for failure in result.failures):
        note("hint: `gavotte hosts check` names the firewall rule that is missing, if one is")
    if len(result.failures) > 20:
        note(f"warning: {len(result.failures) - 20} more paths did not answer")
    if result.history.answered == 0:
        raise GavotteError("no path answered", hint="see the warnings above")
    if result.stopped and result.answered == result.paths:
        note(f"warning: {result.stopped}: all paths have answered, but doubtful ones were not measured again")
    elif result.stopped:
        place = f" are in {spare or output}" if output is not None else " were printed"
        place += f"; {output} was not changed" if spare is not None else ""
        raise GavotteError(result.stopped, hint=f"{_remedy(result.stopped, cost)}the results until then{place}")
    if spare is not None:
        raise GavotteError(
            f"{output} was not changed: it has paths that did not answer now",
            hint=f"the new History is {spare}; rename it if you want it",
        )


measure.command(epilog="Example: gavotte measure sharing cloud.npz --hosts lab")(sharing)
measure.command(epilog="Example: gavotte measure cross vm0 vm1 --hosts lab --max-rate 287mbit")(cross)
measure.command(epilog="Example: gavotte measure calibrate --hosts lab --paths 12")(calibrate)


def _remedy(stopped: str, cost: Cost) -> str:
    """Return the remedy for a measurement that needed more than its limit."""
    budget = f"{math.ceil(cost.max_bytes / 1e9)}GB" if "bytes" in stopped else f"{math.ceil(2 * cost.max_seconds)}s"
    return f"allow more, e.g. --budget {budget}; " if stopped.startswith("more ") else ""


def _written(output: Path, history: History, *, whole: bool) -> Path | None:
    """Write a History, and return the file's path if it is not `output`.

    Only a `whole` History may replace one with paths that it lacks. Another one goes to a file next to it.
    """
    from gavotte.errors import FormatError
    from gavotte.formats.history import read_history, write_history

    if not whole and output.is_file():
        try:
            lacking = history.lacks(read_history(output))
        except FormatError:
            # Not a History, so no path of it can be lost.
            lacking = 0
        if lacking:
            aside = output.with_name(f"{output.stem}.lost{output.suffix}")
            write_history(aside, history)
            return aside
    if history.answered:
        write_history(output, history)
    return None


@contextmanager
def _resumable(journal: Path | None) -> Iterator[None]:
    """Print how to resume, if the measurement is ended before it is done."""
    try:
        yield
    except BaseException as ended:
        # A signal. An error has its own remedy.
        if not isinstance(ended, Exception) and journal is not None and journal.exists():
            note("what was measured is kept; continue with the same command and --resume")
        raise


def _some(text: str, names: list[str], seed: int) -> list[tuple[str, str]]:
    """Return the pairs of `--pairs`: as many from each host as requested, and as many to it."""
    from gavotte.errors import GavotteError
    from gavotte.model import random_rings, usual_degree

    if text != "sparse" and not text.isdecimal():
        raise GavotteError(
            f"--pairs: `{text}` is not a number of pairs", hint="use sparse, or a number of pairs per host"
        )
    degree = usual_degree(len(names)) if text == "sparse" else int(text)
    return [(names[i], names[j]) for i, j in np.argwhere(random_rings(len(names), degree, seed=seed))]


def _trains(method: str, bursts: int | None, packets: int | None, calibration: Path | None) -> Method | None:
    """Return Choreo's trains of the requested shape; None if no shape is requested."""
    from gavotte.errors import GavotteError
    from gavotte.measure import choreo
    from gavotte.measure.calibrate import calibrated
    from gavotte.measure.plan.methods import BURST_PACKETS, BURSTS

    if bursts is None and packets is None and calibration is None:
        return None
    if method != "choreo":
        raise GavotteError("only choreo has bursts of packets", hint="add --method choreo")
    if calibration is None:
        return choreo(bursts=bursts or BURSTS, packets=packets or BURST_PACKETS)
    if bursts is not None or packets is not None:
        raise GavotteError("--calibration has bursts and packets already", hint="leave out --bursts and --packets")
    return calibrated(calibration)


def _stable(seed: int) -> Callable[[History], bool]:
    """Return a function that reports whether more snapshots would still change decisions."""
    from gavotte.model import settled, transfer_times

    return lambda history: settled(transfer_times(history), seed=seed).stop


def _engine(engine: str) -> Engine:
    from gavotte.errors import GavotteError
    from gavotte.measure.plan.methods import ENGINES

    for each in ENGINES:
        if engine == each:
            return each
    raise GavotteError(f"unknown engine `{engine}`", hint=f"use one of {', '.join(ENGINES)}")
