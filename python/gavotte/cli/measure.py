"""`gavotte measure`: hosts to History."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from gavotte.cli.budget import read_limits
from gavotte.cli.calibrate import calibrate
from gavotte.cli.cross import cross
from gavotte.cli.foretelling import foretold
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
)
from gavotte.cli.output import emit_json, emit_table, note, progress, warn_beside
from gavotte.cli.sharing import document, experiment, sharing
from gavotte.formats.counting import counted
from gavotte.formats.history import VERDICTS, Floats, History, Proof
from gavotte.formats.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.measure import Cost, Measurement, Method
    from gavotte.measure.methods import Engine

DEFAULT = "train"


measure = typer.Typer(
    help="Measure every directed path between the hosts.",
    epilog="Example: gavotte measure --hosts lab --sharing -o cloud.npz",
    invoke_without_command=True,
)


@measure.callback()
def paths(
    context: typer.Context,
    hosts: MaybeHosts = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the History to this file.", metavar="H.npz")
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="train, bulk (TCP), pingpong or choreo (packet trains as published).")
    ] = DEFAULT,
    flows: Annotated[
        int, typer.Option("--flows", help="Parallel connections, for bulk.", min=1, max=64, metavar="N")
    ] = 1,
    seconds: Annotated[
        float,
        typer.Option("--seconds", help="Duration of each transfer, for bulk.", min=0.1, max=600, metavar="SECONDS"),
    ] = 1.0,
    engine: Annotated[
        str, typer.Option("--engine", help="Who sends and counts, for bulk: gavotte, or the hosts' own iperf3.")
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
            "--calibration", help="Take both from this file of `gavotte measure calibrate -o`.", metavar="C.json"
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
            help="Measure only so many pairs from and to each host; sparse = 2 log2 N. See `gavotte model --fill`.",
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
        bool, typer.Option("--sharing", help="Then find out by experiments which pairs share a bottleneck.")
    ] = False,
    again: Annotated[bool, typer.Option(help="Measure doubtful paths once more, each alone.")] = True,
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
    from gavotte.measure.methods import ASSUMED_RATE_BPS
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
            "--pilot foretells what hosts cost that no Network tells", hint="add --dry-run, and leave out --network"
        )
    if store is not None and series is None:
        raise GavotteError("--store needs a series", hint="name one with --series")
    if method == "bulk":
        how = bulk(flows=flows, seconds=seconds, engine=_engine(engine))
    else:
        how = _trains(method, bursts, packets, calibration) or METHODS[method]
    known = read_network(network) if network is not None else None
    some = None if pairs is None else _some(pairs, inventory.names, seed)
    assumed_bps = ASSUMED_RATE_BPS if assumed_rate is None else read_rate("--assumed-rate", assumed_rate)
    todo = plan_measurement(
        inventory.names,
        how,
        count=count,
        every_s=every,
        seed=seed,
        known=known,
        assumed_bps=assumed_bps,
        pairs=some,
    )
    cost = expected_cost(todo.within(limits), inventory, known, limits)
    what = f"{count} snapshot{'s' * (count > 1)}"
    sent: dict[str, object] | None = None
    if pilot:
        todo, cost, sent = foretold(inventory, todo, limits, sharing=share, take_over=take_over)
        what += " and experiments" * share
    elif share:
        cost += cost_of_sharing(
            foreseen(inventory.names, known, assumed_bps=assumed_bps, method=how.name),
            seed=seed,
            price_per_gb=price_per_gb,
            known=known,
        )
        what += " and experiments"
    money = f", about {cost.money:.2f} in money" if price_per_gb else ""
    note(
        f"{todo.paths} paths in {len(todo.first)} rounds, {what}: "
        f"about {format_bytes(cost.bytes)}, at most {format_bytes(cost.max_bytes)}, about {cost.seconds:.1f} s and "
        f"at most {cost.max_seconds:.1f} s where paths are slow and share links{money}, seed {seed}"
    )
    limits.check(cost)
    if dry_run:
        if known is None and assumed_rate is None and not pilot:
            note(
                f"without a Network paths are taken to carry {format_rate(assumed_bps)}; "
                "name what yours do with --assumed-rate, or let a few probes tell with --pilot"
            )
        if as_json:
            emit_json(
                {
                    "paths": todo.paths,
                    "rounds": len(todo.first),
                    "snapshots": count,
                    "bytes": cost.bytes,
                    "max_bytes": cost.max_bytes,
                    "seconds": cost.seconds,
                    "max_seconds": cost.max_seconds,
                    "money": cost.money,
                    "seed": seed,
                    "pilot": sent,
                }
            )
        return
    if output is not None and not output.parent.is_dir():
        raise GavotteError(f"{output}: no such folder", hint="create the folder, or name another file")
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
            known=known,
            assumed_bps=assumed_bps,
            journal=journal,
            resume=resume,
            progress=advance,
            enough=_stable(seed) if until_stable else None,
            pairs=some,
            take_over=take_over,
        )
    kept = None if output is None else _written(output, result.history, whole=result.answered == result.paths)
    shared: dict[str, object] | None = None
    if share:
        completed, experiments = experiment(inventory, result.history, seed=seed)
        result, shared = replace(result, history=completed), document(experiments)
        if output is not None:
            write_history(kept or output, completed)
    if series is not None and result.history.answered:
        from gavotte.store import record_measurement

        added = record_measurement(series, result.history, store=store)
        note(f"added {added.snapshots} to series {added.series}")
    if as_json:
        emit_json(_document(result, method, output) | {"sharing": shared})
    else:
        _print(result)
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
            f"warning: whether hosts share {link}{f' and {more} more' * (more > 0)} is not known, for no pairs that "
            "cross it sent at the same time; measure again, or with --sharing"
        )
    if result.doubtful:
        (source, target), more = result.doubtful[0], len(result.doubtful) - 1
        note(
            f"warning: {source} to {target}{f' and {more} more' * (more > 0)} may carry more: other probes were beside "
            "them, and the budget left nothing to measure them alone"
        )
    if result.busy:
        (source, target), more = result.busy[0], len(result.busy) - 1
        note(
            f"warning: others fill {source} to {target}{f' and {more} more' * (more > 0)}: what TCP gets beside them "
            "is told; measure again when they are quiet"
        )
    for failure in result.failures[:20]:
        note(f"warning: {failure.source} to {failure.target}: {failure.reason}")
    if len(result.failures) > 20:
        note(f"warning: {len(result.failures) - 20} more paths did not answer")
    if result.history.answered == 0:
        raise GavotteError("no path answered", hint="see the warnings above")
    if result.stopped and result.answered == result.paths:
        note(f"warning: {result.stopped}: all paths have answered, but doubtful ones were not measured again")
    elif result.stopped:
        found = f" is in {kept or output}" if output is not None else " was printed"
        found += f"; {output} stays as it was" if kept is not None else ""
        raise GavotteError(result.stopped, hint=f"{_remedy(result.stopped, cost)}what was found before{found}")
    if kept is not None:
        raise GavotteError(
            f"{output} stays as it was: it has paths that did not answer now",
            hint=f"the new one is {kept}; rename it if you want it",
        )


measure.command(epilog="Example: gavotte measure sharing cloud.npz --hosts lab")(sharing)
measure.command(epilog="Example: gavotte measure cross vm0 vm1 --hosts lab --max-rate 287mbit")(cross)
measure.command(epilog="Example: gavotte measure calibrate --hosts lab --paths 12")(calibrate)


def _remedy(stopped: str, cost: Cost) -> str:
    """What to do where a measurement needed more than was said."""
    budget = f"{math.ceil(cost.max_bytes / 1e9)}GB" if "bytes" in stopped else f"{math.ceil(2 * cost.max_seconds)}s"
    return f"allow more, e.g. --budget {budget}; " if stopped.startswith("more ") else ""


def _written(output: Path, history: History, *, whole: bool) -> Path | None:
    """Writes a History, but unless it is `whole` never over one with paths that it lacks; tells where else, if so."""
    from gavotte.errors import FormatError
    from gavotte.formats.history import read_history, write_history

    if not whole and output.is_file():
        try:
            lacking = history.lacks(read_history(output))
        except FormatError:
            # Not a History: nothing of it is missed.
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
    """Says how to go on, if the measurement is ended before it is done."""
    try:
        yield
    except BaseException as ended:
        # A signal; an error says by itself what to do.
        if not isinstance(ended, Exception) and journal is not None and journal.exists():
            note("what was measured is kept; go on with the same command and --resume")
        raise


def _some(text: str, names: list[str], seed: int) -> list[tuple[str, str]]:
    """As many pairs out of each host as asked for, and as many into it."""
    from gavotte.errors import GavotteError
    from gavotte.model import random_rings, usual_degree

    if text != "sparse" and not text.isdecimal():
        raise GavotteError(
            f"--pairs: `{text}` is not a number of pairs", hint="use sparse, or a number of pairs per host"
        )
    degree = usual_degree(len(names)) if text == "sparse" else int(text)
    return [(names[i], names[j]) for i, j in np.argwhere(random_rings(len(names), degree, seed=seed))]


def _trains(method: str, bursts: int | None, packets: int | None, calibration: Path | None) -> Method | None:
    """Choreo's trains of the shape asked for; None where none is."""
    from gavotte.errors import GavotteError
    from gavotte.measure import choreo
    from gavotte.measure.calibrate import calibrated
    from gavotte.measure.methods import BURST_PACKETS, BURSTS

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
    """Whether more snapshots would change what is decided."""
    from gavotte.model import settled, transfer_times

    return lambda history: settled(transfer_times(history), seed=seed).stop


def _engine(engine: str) -> Engine:
    from gavotte.errors import GavotteError
    from gavotte.measure.methods import ENGINES

    for known in ENGINES:
        if engine == known:
            return known
    raise GavotteError(f"unknown engine `{engine}`", hint=f"use one of {', '.join(ENGINES)}")


def _document(result: Measurement, method: str, output: Path | None) -> dict[str, object]:
    history = result.history
    return {
        "hosts": list(history.hosts),
        "method": method,
        "paths": result.paths,
        "answered": result.answered,
        "again": result.again,
        "snapshots": history.snapshots,
        "measure_s": result.seconds,
        "bytes_sent": result.bytes_sent,
        "seed": result.seed,
        "rate_bps": [[None if b != b else 8 * b for b in row] for row in history.beta_Bps[-1].tolist()],
        "latency_s": [[None if a != a else a for a in row] for row in history.alpha_s[-1].tolist()],
        "hops": history.hops.tolist(),
        "sender_cpu": _matrix(result, "sender_cpu"),
        "receiver_cpu": _matrix(result, "receiver_cpu"),
        "flows": [
            {"source": history.hosts[i], "target": history.hosts[j], "flows": [vars(flow) for flow in path.flows]}
            for (i, j), path in sorted(result.newest.items())
            if path.flows
        ],
        "proof": None if history.proof is None else _proof(history.proof, history.beta_Bps),
        "missing": result.missing,
        "lost": result.lost,
        "shared": [{"link": link, "rate_bps": rate_bps or None} for link, rate_bps in result.shared.items()],
        "untested": result.untested,
        "doubtful": [list(pair) for pair in result.doubtful],
        "busy": [list(pair) for pair in result.busy],
        "stopped": result.stopped or None,
        "beside": [each.as_dict() for each in result.beside],
        "failures": [vars(failure) for failure in result.failures],
        "output": None if output is None else str(output),
    }


def _matrix(result: Measurement, key: str) -> list[list[float | None]]:
    """A number of each path of the newest snapshot; None where it is unknown."""
    size = range(len(result.history.hosts))
    known = {at: getattr(path, key) for at, path in result.newest.items() if not math.isnan(getattr(path, key))}
    return [[known.get((i, j)) for j in size] for i in size]


def _proof(proof: Proof, beta_Bps: Floats) -> dict[str, object]:  # noqa: N803
    """The newest snapshot's proofs, by pair."""
    rates = {key.replace("_Bps", "_bps"): 8 * getattr(proof, key)[-1] for key in ("low_Bps", "high_Bps", "peak_Bps")}
    matrices = rates | {"bucket_bytes": proof.bucket_bytes[-1], "loss": proof.loss[-1]}
    return {
        "bucket_full": proof.bucket_full(beta_Bps)[-1].tolist(),
        "verdict": [[VERDICTS[code] for code in row] for row in proof.verdict[-1].tolist()],
        **{key: [[None if v != v else v for v in row] for row in matrix.tolist()] for key, matrix in matrices.items()},
    }


def _print(result: Measurement) -> None:
    history = result.history
    rows = [
        [name, *("-" if b != b else format_rate(8 * b).replace("bit/s", "").strip() for b in row)]
        for name, row in zip(history.hosts, history.beta_Bps[-1].tolist(), strict=True)
    ]
    emit_table(["bit/s", *history.hosts], rows)
    if history.proof is not None:
        codes = history.proof.verdict[-1][np.isfinite(history.beta_Bps[-1])]
        note(", ".join(f"{int((codes == i).sum())} {name}" for i, name in enumerate(VERDICTS) if (codes == i).any()))
    note(
        f"{result.answered} of {result.paths} paths answered in {result.seconds:.2f} s, "
        f"{format_bytes(result.bytes_sent)} sent, seed {result.seed}"
    )
    for link, sum_bps in result.shared.items():
        carries = (
            f"carries {format_rate(sum_bps)} in all" if sum_bps else "was found full; --sharing tells what it carries"
        )
        note(f"shared: {link} {carries}")
