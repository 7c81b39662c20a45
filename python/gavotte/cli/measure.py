"""`gavotte measure`: measure the paths between hosts and write a History."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from gavotte.cli import lists
from gavotte.cli.budget import read_limits
from gavotte.cli.calibrate import calibrate
from gavotte.cli.cross import cross
from gavotte.cli.declared import declared, option
from gavotte.cli.estimate import estimate_document, plan_with, show_plan
from gavotte.cli.measurement import document as measurement_document
from gavotte.cli.measurement import print_result
from gavotte.cli.options import (
    AssumedRate,
    Budget,
    DryRunWithPilot,
    Json,
    MaybeHosts,
    PricePerGb,
    Seed,
    TakeOver,
    read_rate,
)
from gavotte.cli.options import Pilot as PilotOption
from gavotte.cli.output import emit_json, note, warn
from gavotte.cli.pilot import PilotTerms, check_pilot, needs_pilot, pilot_document
from gavotte.cli.progress import Meter, progress
from gavotte.cli.settings.applying import is_from_file
from gavotte.cli.sharing import document, experiment, sharing
from gavotte.cli.writing import to_write
from gavotte.errors import GavotteError
from gavotte.formats.history import History, PairHistory
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_rate
from gavotte.terms import Progress

if TYPE_CHECKING:
    from gavotte.measure import Cost, Measurement, MeasureQuestion, Method
    from gavotte.measure.plan.methods.bulk import Engine

DEFAULT = "train"


measure = typer.Typer(
    cls=lists.group("measure"),
    help="Measure every directed path between the hosts.",
    invoke_without_command=True,
)

LEARN_S = 0.3
"""Interval at which rates so far are shown."""


@dataclass(frozen=True)
class ProbeOptions:
    """How each path is measured."""

    method: str = option("Probe of each path. bulk is TCP, and choreo is packet trains as published.", default=DEFAULT)
    flows: int = option("Parallel connections, for bulk.", "N", default=1, min=1, max=64)
    seconds: float = option("Duration of each transfer, for bulk.", "SECONDS", default=1.0, min=0.1, max=600)
    engine: str = option("Program that sends and counts, for bulk. iperf3 is the hosts' own.", default="gavotte")
    bursts: int | None = option("Bursts of a train, for choreo (10).", "K", min=1, max=1000)
    packets: int | None = option("Packets of a burst, for choreo (200).", "B", min=2, max=20_000)
    calibration: Path | None = option(
        "Read bursts and packets from this file of `gavotte measure calibrate -o`.", "C.json"
    )


@dataclass(frozen=True)
class SnapshotOptions:
    """How often, and which pairs."""

    count: int = option("Number of snapshots.", "N", default=1, min=1)
    every: float = option("Time between the starts of two snapshots.", "SECONDS", default=0.0, min=0)
    until_stable: bool = option(
        "Stop before --count once another snapshot would not change any decision.", default=False
    )
    scale: str = option(
        "Which pairs to measure. pairs = all; structure = few that show the limits of hosts and racks, and some to "
        "check the prediction of all others; auto = structure for more than 24 hosts, and for more than 8 if uplinks "
        "limit them, else pairs. With --sharing, all pairs are measured.",
        "auto|pairs|structure",
        default="auto",
    )
    pairs: str | None = option(
        "Measure only this many pairs from and to each host; sparse = 2 log2 N. See `gavotte model --fill`.",
        "sparse|COUNT",
    )
    seed: Seed = 0


@dataclass(frozen=True)
class CostOptions:
    """What it may cost, and what is known about that."""

    budget: Budget = None
    price_per_gb: PricePerGb = 0.0
    network: Path | None = option(
        "An earlier Network: do not fill its shared links with two probes at once.", "N.network.json"
    )
    assumed_rate: AssumedRate = None


@dataclass(frozen=True)
class WorkOptions:
    """What else to measure, and what to do with the result."""

    share: bool = option(
        "Afterwards find out by experiments which pairs share a bottleneck.", None, "--sharing", default=False
    )
    sustain: float = option(
        "Afterwards let each host send for this long without a pause, to find credits that run out meanwhile.",
        "SECONDS",
        default=0.0,
        min=0,
    )
    again: Annotated[bool, typer.Option(help="Measure doubtful paths again, each alone.")] = True
    series: str | None = option("Add the snapshots to this series of the store.")
    store: str | None = option("The store for --series; see `gavotte history list --help`.", "URL")
    take_over: TakeOver = False
    resume: bool = option("Continue the interrupted measurement of the file given by -o.", default=False)


@dataclass(frozen=True)
class ShowOptions:
    """What to show without measuring, and how."""

    dry_run: DryRunWithPilot = False
    pilot: PilotOption = None
    as_json: Json = False


@measure.callback()
@declared
def paths(
    context: typer.Context,
    hosts: MaybeHosts = None,
    output: Annotated[Path | None, to_write("Write the History to this file.", "H.npz")] = None,
    *,
    probe: ProbeOptions,
    asked: SnapshotOptions,
    costing: CostOptions,
    work: WorkOptions,
    show: ShowOptions,
) -> None:
    """Measure every directed path between the hosts."""
    if context.invoked_subcommand is not None:
        return
    if hosts is None:
        raise typer.BadParameter("--hosts is missing: use e.g. --hosts lab")
    from gavotte.agents import reaching
    from gavotte.formats.history import check_history_path, write_history
    from gavotte.measure import MeasureSession, carry_out, journal_path

    if output is not None:
        check_history_path(output)
    if work.resume and output is None:
        raise GavotteError("--resume needs the file that was being measured", hint="name it with -o")
    if work.store is not None and work.series is None and not is_from_file(context, "store"):
        raise GavotteError("--store needs a series", hint="name one with --series")
    question = _question(hosts, probe, asked, costing, work)
    check_pilot(question, show.pilot)
    piloted = not work.resume and needs_pilot(question, show.pilot)
    # A pilot and the measurement share their connections, which take long to open by SSH.
    with reaching(question.inventory) if piloted else nullcontext(None) as reach:
        plan = plan_with(
            question, PilotTerms(bool(show.pilot), show.dry_run, work.take_over, reach) if piloted else None
        )
        if show.dry_run:
            show_plan(plan, as_json=show.as_json)
            return
        journal = None if output is None else journal_path(output)
        with progress("measuring", "paths") as meter, _resumable(journal):
            meter(0, plan.reachable.paths * plan.question.count)
            enough = _stable(asked.seed) if asked.until_stable else None
            advance = _then_sustain(meter, plan.reachable.paths, work.sustain)
            session = MeasureSession(advance, work.take_over, journal, work.resume, enough, reach, _learning(meter))
            result = carry_out(plan, session)
    spare = None if output is None else _written(output, result.pairs, whole=result.answered == result.paths)
    shared: dict[str, object] | None = None
    if work.share:
        completed, experiments = experiment(question.inventory, result.history, seed=asked.seed)
        result, shared = replace(result, pairs=completed.in_pairs()), document(experiments)
        if output is not None:
            write_history(spare or output, completed)
    if work.series is not None and result.pairs.answered:
        from gavotte.store import record_measurement

        added = record_measurement(work.series, result.history, store=work.store)
        note(f"added {added.snapshots} to series {added.series}")
    if show.as_json:
        known = {"sharing": shared, "estimate": estimate_document(plan), "pilot": pilot_document(plan.pilot)}
        emit_json(measurement_document(result, probe.method, output) | known)
    else:
        print_result(result)
    if asked.scale == "auto" and "held_out" in result.pairs.values:
        pairs = math.perm(len(result.pairs.hosts), 2)
        note(f"{result.answered} of {pairs} pairs show the rates of all; --scale pairs measures each of them")
    if asked.until_stable:
        _tell_end(result, asked.count)
    warn(result.warnings)
    if result.refused_by_firewalls:
        note("hint: `gavotte hosts check` names the firewall rule that is missing, if one is")
    _check_complete(result, plan.total, output, spare)


measure.command(epilog="Example: gavotte measure sharing cloud.npz --hosts lab")(sharing)
measure.command(epilog="Example: gavotte measure cross vm0 vm1 --hosts lab --max-rate 287mbit")(cross)
measure.command(epilog="Example: gavotte measure calibrate --hosts lab --paths 12")(calibrate)


def _question(
    hosts: str,
    probe: ProbeOptions,
    asked: SnapshotOptions,
    costing: CostOptions,
    work: WorkOptions,
) -> MeasureQuestion:
    """Return what the options ask; refuse those that need or exclude each other."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.network import read_network
    from gavotte.measure import METHODS, MeasureQuestion, bulk
    from gavotte.measure.plan.methods import SHAPED

    inventory = resolve_hosts(hosts)
    limits = read_limits(costing.budget or [], costing.price_per_gb)
    method = probe.method
    if method not in METHODS:
        raise GavotteError(f"unknown method `{method}`", hint=f"use one of {', '.join(METHODS)}")
    shaped = SHAPED.get(method)
    if probe.engine != "gavotte" and shaped is not bulk:
        raise GavotteError(f"--engine {probe.engine} cannot measure with --method {method}", hint="use --method bulk")
    if work.share and (asked.pairs is not None or asked.scale == "structure"):
        hint = f"leave out {'--scale' if asked.pairs is None else '--pairs'}"
        raise GavotteError("--sharing needs the rate of every pair", hint=hint)
    if shaped is bulk:
        how = bulk(flows=probe.flows, seconds=probe.seconds, engine=_engine(probe.engine))
    else:
        how = _trains(probe) or METHODS[method]
    rate = costing.assumed_rate
    known = read_network(costing.network) if costing.network is not None else None
    question = MeasureQuestion(
        inventory,
        how,
        asked.count,
        asked.every,
        asked.seed,
        again=work.again,
        limits=limits,
        pairs=None if asked.pairs is None else _some(asked.pairs, inventory.names, asked.seed),
        scale=asked.scale,  # type: ignore[arg-type] # checked below
        known=known,
        assumed_bps=None if rate is None else read_rate("--assumed-rate", rate),
        sharing=work.share,
        sustain_s=work.sustain,
    )
    question.check_fields()
    return question


def _tell_end(result: Measurement, count: int) -> None:
    """Print whether decisions have settled before all snapshots."""
    stopped = result.pairs.snapshots
    why = "decisions have settled" if stopped < count else "decisions did not settle earlier"
    note(f"stopped after {stopped} of {counted(count, 'snapshot')}: {why}")


def _check_complete(result: Measurement, cost: Cost, output: Path | None, spare: Path | None) -> None:
    """Fail if paths are missing, or if the History is in a file other than `output`."""
    if result.pairs.answered == 0:
        raise GavotteError("no path answered", hint="see the warnings above")
    if result.stopped and result.answered != result.paths:
        place = f" are in {spare or output}" if output is not None else " were printed"
        place += f"; {output} was not changed" if spare is not None else ""
        raise GavotteError(result.stopped, hint=f"{_remedy(result.stopped, cost)}the results until then{place}")
    if spare is not None:
        raise GavotteError(
            f"{output} was not changed: it has paths that did not answer now",
            hint=f"the new History is {spare}; rename it if you want it",
        )


def _remedy(stopped: str, cost: Cost) -> str:
    """Return the remedy for a measurement that needed more than its limit."""
    budget = f"{math.ceil(cost.max_bytes / 1e9)}GB" if "bytes" in stopped else f"{math.ceil(2 * cost.max_seconds)}s"
    return f"allow more, e.g. --budget {budget}; " if stopped.startswith("more ") else ""


def _written(output: Path, history: PairHistory, *, whole: bool) -> Path | None:
    """Write a History, and return the file's path if it is not `output`.

    Only a `whole` History may replace one with paths that it lacks. Another one goes to a file next to it.
    """
    from gavotte.errors import FormatError
    from gavotte.formats.history import in_fitting_form, read_pairs, write_history

    if not whole and output.is_file():
        try:
            lacking = history.lacks(read_pairs(output))
        except FormatError:
            # Not a History, so no path of it can be lost.
            lacking = 0
        if lacking:
            aside = output.with_name(f"{output.stem}.lost{output.suffix}")
            write_history(aside, in_fitting_form(history))
            return aside
    if history.answered:
        write_history(output, in_fitting_form(history))
    return None


def _then_sustain(advance: Progress, paths: int, sustain_s: float) -> Progress:
    """Return progress that says once what follows when all paths of the first snapshot have a rate."""
    left = [sustain_s] if sustain_s else []

    def count(done: int, total: int) -> None:
        advance(done, total)
        if done >= paths and left:
            seconds = left.pop()
            note(f"all {counted(paths, 'path')} have a rate; then each host sends for {seconds:g} s (--sustain)")

    return count


def _learning(meter: Meter) -> Callable[[float], None]:
    """Return what takes each rate, so that their median and extremes so far are shown."""
    rates_bps, due_s = array("d"), 0.0

    def hear(rate_bps: float) -> None:
        nonlocal due_s
        rates_bps.append(rate_bps)
        if time.monotonic() < due_s:
            return
        # The median of a million rates takes 10 ms.
        due_s = time.monotonic() + LEARN_S
        shares = np.quantile(np.array(rates_bps), (0.5, 0.0, 1.0)).tolist()
        middle, slow, fast = map(format_rate, shares)
        meter.learnt(f"{middle} in the median, {slow} to {fast}")

    return hear


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
    from gavotte.model import random_rings, usual_degree

    if text != "sparse" and not text.isdecimal():
        raise GavotteError(
            f"--pairs: `{text}` is not a number of pairs", hint="use sparse, or a number of pairs per host"
        )
    degree = usual_degree(len(names)) if text == "sparse" else int(text)
    return [(names[i], names[j]) for i, j in np.argwhere(random_rings(len(names), degree, seed=seed))]


def _trains(probe: ProbeOptions) -> Method | None:
    """Return Choreo's trains of the requested shape; None if no shape is requested."""
    from gavotte.measure import choreo
    from gavotte.measure.calibrate import calibrated
    from gavotte.measure.plan.methods import SHAPED
    from gavotte.measure.plan.methods.choreo import BURST_PACKETS, BURSTS

    bursts, packets, calibration = probe.bursts, probe.packets, probe.calibration
    if bursts is None and packets is None and calibration is None:
        return None
    if SHAPED.get(probe.method) is not choreo:
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
    from gavotte.measure.plan.methods.bulk import ENGINES

    for each in ENGINES:
        if engine == each:
            return each
    raise GavotteError(f"unknown engine `{engine}`", hint=f"use one of {', '.join(ENGINES)}")
