"""`gavotte measure sharing`, and the experiments of `gavotte measure --sharing`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.budget import read_limits
from gavotte.cli.declared import declared, option
from gavotte.cli.measurement import standouts_of
from gavotte.cli.options import Budget, DryRun, Hosts, Json, PricePerGb, Seed, TakeOver
from gavotte.cli.output import emit_findings, emit_json, emit_table, note, warn
from gavotte.cli.progress import progress
from gavotte.cli.writing import to_write
from gavotte.formats.parts.rates import common_unit, format_bytes, format_in

if TYPE_CHECKING:
    from gavotte.formats.history import History
    from gavotte.formats.inventory import Inventory
    from gavotte.measure.sharing import SharingPlan, SharingResult


@dataclass(frozen=True)
class SharingOptions:
    """How to choose and to trace the pairs."""

    output: Annotated[
        Path | None,
        to_write("Write the completed History to this file. By default back to H.npz.", "H.npz", updates=True),
    ] = None
    trace: bool = option("Also trace the routers on all paths.", default=False)
    seed: Seed = 0
    take_over: TakeOver = False


@dataclass(frozen=True)
class CostOptions:
    """What it may cost, and how that is shown."""

    budget: Budget = None
    price_per_gb: PricePerGb = 0.0
    dry_run: DryRun = False
    as_json: Json = False


@declared
def sharing(
    history: Annotated[Path, typer.Argument(help="A History with the rates of all pairs.", metavar="H.npz")],
    hosts: Hosts,
    asked: SharingOptions,
    costing: CostOptions,
) -> None:
    """Find out by experiments which pairs share a bottleneck, and add the evidence to the History (Choreo, 3.3)."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.files.reading import check_folder
    from gavotte.formats.history import read_history, write_history
    from gavotte.measure.sharing import SharingQuestion, plan_sharing

    past, output = read_history(history), asked.output or history
    check_folder(output)
    limits = read_limits(costing.budget or [], costing.price_per_gb)
    plan = plan_sharing(SharingQuestion(resolve_hosts(hosts), past, asked.seed, asked.trace, limits))
    if costing.dry_run:
        cost = plan.cost
        if costing.as_json:
            emit_json(vars(cost) | {"seed": asked.seed})
        else:
            note(
                f"about {format_bytes(cost.bytes)}, at most {format_bytes(cost.max_bytes)}, about {cost.seconds:.0f} s"
            )
        plan.check()
        return
    completed, result = carry_out(plan, take_over=asked.take_over)
    write_history(output, completed)
    if costing.as_json:
        emit_json(document(result) | {"output": str(output)})
        return
    emit_findings(standouts_of(completed))
    rates_bps = [rate for record in result.evidence for rate in (record.sum_bps, sum(record.alone_bps))]
    unit, scale = common_unit(rates_bps)
    rows = [
        [
            record.subject,
            record.verdict,
            str(len(record.pairs)),
            format_in(record.sum_bps, scale),
            format_in(sum(record.alone_bps), scale),
            f"{1e3 * record.overlap_s:.0f} ms",
            record.reason,
        ]
        for record in result.evidence
    ]
    columns = ["link", "verdict", "pairs", f"together {unit}", f"alone {unit}", "overlap", "reason"]
    emit_table(columns, rows, words=("verdict", "reason"))
    note(f"wrote {output}; `gavotte model` concludes which links are shared")


def experiment(inventory: Inventory, history: History, *, seed: int) -> tuple[History, SharingResult]:
    """Run the experiments that follow a measurement."""
    from gavotte.measure.sharing import SharingQuestion, plan_sharing

    return carry_out(plan_sharing(SharingQuestion(inventory, history, seed)))


def carry_out(plan: SharingPlan, *, take_over: bool = False) -> tuple[History, SharingResult]:
    """Run experiments with a progress bar; print their estimate before and their cost after."""
    from gavotte.measure import ProbeSession
    from gavotte.measure.sharing import carry_out as run

    note(
        f"experiments, by the rates and round trips that are known now: about {format_bytes(plan.cost.bytes)} and "
        f"{plan.cost.seconds:.0f} s"
    )
    with progress("looking for shared links", "experiments") as advance:
        completed, result = run(plan, ProbeSession(advance, take_over))
    warn(result.warnings)
    sent = format_bytes(result.bytes_sent)
    note(f"{result.experiments} experiments in {result.seconds:.1f} s, {sent} sent, seed {result.seed}")
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
        "guaranteed_bps": result.guaranteed_bps,
        "evidence": result.to_records(),
    }
