"""`gavotte measure sharing`, and the experiments of `gavotte measure --sharing`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.budget import read_limits
from gavotte.cli.options import Budget, DryRun, Hosts, Json, PricePerGb, Seed, TakeOver, to_write
from gavotte.cli.output import emit_json, emit_table, note, progress, warn_beside
from gavotte.formats.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.formats.history import History
    from gavotte.formats.inventory import Inventory
    from gavotte.measure import CostLimits
    from gavotte.measure.sharing import SharingResult


def sharing(
    history: Annotated[Path, typer.Argument(help="A History with the rates of all pairs.", metavar="H.npz")],
    hosts: Hosts,
    output: Annotated[
        Path | None,
        to_write("Write the completed History to this file. By default back to H.npz.", "H.npz"),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Also trace the routers on all paths.")] = False,
    seed: Seed = 0,
    take_over: TakeOver = False,
    budget: Budget = None,
    price_per_gb: PricePerGb = 0.0,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Find out by experiments which pairs share a bottleneck, and add the evidence to the History (Choreo, 3.3)."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.history import read_history, write_history
    from gavotte.formats.reading import check_folder
    from gavotte.measure.sharing import cost_of_sharing

    past = read_history(history)
    check_folder(output or history)
    limits = read_limits(budget or [], price_per_gb)
    inventory = resolve_hosts(hosts)
    if dry_run:
        cost = cost_of_sharing(past, seed=seed, price_per_gb=price_per_gb)
        if as_json:
            emit_json(vars(cost) | {"seed": seed})
        else:
            note(
                f"about {format_bytes(cost.bytes)}, at most {format_bytes(cost.max_bytes)}, about {cost.seconds:.0f} s"
            )
        limits.check(cost)
        return
    completed, result = experiment(inventory, past, seed=seed, trace=trace, limits=limits, take_over=take_over)
    write_history(output or history, completed)
    if as_json:
        emit_json(document(result) | {"output": str(output or history)})
        return
    rows = [
        [
            record.subject,
            record.verdict,
            str(len(record.pairs)),
            format_rate(record.sum_bps),
            format_rate(sum(record.alone_bps)),
            f"{1e3 * record.overlap_s:.0f} ms",
            record.reason,
        ]
        for record in result.evidence
    ]
    columns = ["link", "verdict", "pairs", "together", "alone", "overlap", "reason"]
    emit_table(columns, rows, words=("verdict", "reason"))
    note(f"wrote {output or history}; `gavotte model` concludes which links are shared")


def experiment(
    inventory: Inventory,
    history: History,
    *,
    seed: int,
    trace: bool = False,
    limits: CostLimits | None = None,
    take_over: bool = False,
) -> tuple[History, SharingResult]:
    """Run the experiments with a progress bar; print their estimate before and their cost after."""
    from gavotte.measure.sharing import cost_of_sharing, learn_sharing

    cost = cost_of_sharing(history, seed=seed)
    note(
        f"experiments, by the rates and round trips that are known now: about {format_bytes(cost.bytes)} and "
        f"{cost.seconds:.0f} s"
    )
    with progress("looking for shared links") as advance:
        completed, result = learn_sharing(
            inventory, history, seed=seed, trace=trace, limits=limits, progress=advance, take_over=take_over
        )
    sent = format_bytes(result.bytes_sent)
    for host, reason in result.lost.items():
        note(f"warning: lost {host}: {reason}")
    if result.stopped:
        note(f"warning: ended early: {result.stopped}; the results of earlier experiments are kept")
    warn_beside(result.beside, "pairs may have been slow because of it")
    note(f"{result.experiments} experiments in {result.seconds:.1f} s, {sent} sent, seed {seed}")
    return completed, result


def document(result: SharingResult) -> dict[str, object]:
    """Return the result as `--json` prints it."""
    return {
        "experiments": result.experiments,
        "rounds": result.rounds,
        "seconds": result.seconds,
        "bytes_sent": result.bytes_sent,
        "seed": result.seed,
        "lost": result.lost,
        "stopped": result.stopped,
        "beside": [each.as_dict() for each in result.beside],
        "evidence": result.to_records(),
    }
