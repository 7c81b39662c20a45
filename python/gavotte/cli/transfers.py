"""`gavotte transfers`: order the transfers of several applications."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gavotte.cli import lists
from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.options import Json, read_rate
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import progress
from gavotte.cli.writing import to_write
from gavotte.formats.parts.counting import counted

if TYPE_CHECKING:
    from gavotte.transfer import Trace, TransferSimulation

transfers = typer.Typer(help="Order the transfers of several applications.", no_args_is_help=True)

ALL = "all"

Admission = Literal["refuse", "demote", "open"]


@dataclass(frozen=True)
class SimulationOptions:
    """How the transfers are ordered, and what they share."""

    policy: list[str] = option("Order of transfers. all compares them. May be repeated.", "P", default=REQUIRED)
    port_bps: str | None = option("Rate of each port, in each direction. By default 1gbit.", "RATE", show_default=False)
    network: Path | None = option("Use the hosts of this Network as ports, with its links.", "N.network.json")
    step: float | None = option(
        "Longest time that a finished flow's share stays idle. By default 0; 2 for more than 50,000 flows.",
        "SECONDS",
        min=0,
        show_default=False,
    )
    deadlines: float | None = option(
        "Give each coflow a random deadline: the time that it takes alone, times 1 to 1 + X.",
        "X",
        min=0,
        show_default=False,
    )
    seed: int = option("Seed of the deadlines.", "N", default=0, min=0)
    late: Admission = option(
        "Treatment of coflows whose deadline cannot be promised. With open, no deadline is promised.",
        "refuse|demote|open",
        default="refuse",
    )


@transfers.command(
    cls=lists.command("transfers simulate"),
    epilog="Example: gavotte transfers simulate trace.csv --policy fair --policy sebf",
)
@declared
def simulate(
    trace: Annotated[
        Path,
        typer.Argument(
            help="Coflows: a table of flows with coflow, arrival_s, source, target, bytes, or a public coflow trace.",
            metavar="TRACE.csv",
        ),
    ],
    asked: SimulationOptions,
    output: Annotated[
        Path | None,
        to_write("Write the time at which each coflow finishes.", "FINISH.csv"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict how long coflows take when transfers are ordered by a policy."""
    from gavotte.transfer import write_completions

    coflows, results = _simulated(trace, asked, output)
    if output is not None:
        write_completions(output, results[0])
    if as_json:
        summaries = [_summary(each) for each in results]
        emit_json(summaries[0] if len(summaries) == 1 else {"simulations": summaries})
        return
    emit_table(
        [
            "policy",
            "average s",
            "95 % within s",
            "longest s",
            *(["against fair"] if _fair(results) else []),
            *(["in time", "promised", "refused"] if _due(results[0]) else []),
        ],
        _rows(results),
    )
    alone_s = results[0].alone_s
    alone_text = f", {alone_s.mean():.2f} s on average if each ran alone" if len(alone_s) else ""
    step = f", steps of {results[0].step_s:g} s" if results[0].step_s else ""
    note(f"{counted(len(coflows), 'coflow')}, {counted(coflows.flow_count, 'flow')}{alone_text}{step}")
    if output is not None:
        note(f"wrote {output}")


def _simulated(path: Path, asked: SimulationOptions, output: Path | None) -> tuple[Trace, list[TransferSimulation]]:
    """Return the coflows of a file, and their simulation by each policy that the options name."""
    from gavotte.formats.network import read_network
    from gavotte.transfer import POLICIES, read_trace, simulate_transfers, with_deadlines

    policies = list(POLICIES) if ALL in asked.policy else list(dict.fromkeys(asked.policy))
    unknown = next((name for name in policies if name not in POLICIES), None)
    if unknown is not None:
        raise typer.BadParameter(f"unknown policy `{unknown}`; use {', '.join(POLICIES)} or {ALL}")
    if output is not None and len(policies) > 1:
        raise typer.BadParameter("-o writes the times of one policy; name one")
    if asked.port_bps is not None and asked.network is not None:
        raise typer.BadParameter("use one of --port-bps and --network")
    port_bps = None if asked.port_bps is None else read_rate("--port-bps", asked.port_bps)
    coflows, network = read_trace(path), None if asked.network is None else read_network(asked.network)
    if network is not None:
        warn(unknown_pairs(network))
    if asked.deadlines is not None:
        coflows = with_deadlines(coflows, asked.deadlines, seed=asked.seed, port_bps=port_bps, network=network)
    results = []
    for name in policies:
        with progress(name, "coflows") as bar:
            results.append(
                simulate_transfers(
                    coflows,
                    name,
                    port_bps=port_bps,
                    network=network,
                    step_s=asked.step,
                    admission=asked.late,
                    progress=bar,
                )
            )
    return coflows, results


def _summary(done: TransferSimulation) -> dict[str, Any]:
    return {
        "policy": done.policy,
        "coflows": len(done.names),
        "average_s": done.average_s,
        "p95_s": done.p95_s,
        "max_s": done.max_s,
        "alone_average_s": float(done.alone_s.mean()) if len(done.names) else 0.0,
        "step_s": done.step_s,
        "reckonings": done.reckonings,
        "deadlines": _due(done),
        "in_time": int(done.met.sum()),
        "promised": int(done.guaranteed.sum()),
        "refused": done.refused,
    }


def _due(done: TransferSimulation) -> int:
    """Return how many coflows have a deadline."""
    return sum(math.isfinite(each) for each in done.deadline_s.tolist())


def _fair(results: list[TransferSimulation]) -> TransferSimulation | None:
    return next((each for each in results if each.policy == "fair" and len(results) > 1), None)


def _rows(results: list[TransferSimulation]) -> list[list[str]]:
    fair = _fair(results)
    rows = []
    for each in results:
        row = [each.policy, f"{each.average_s:.2f}", f"{each.p95_s:.2f}", f"{each.max_s:.2f}"]
        if fair is not None:
            row.append(f"{fair.average_s / each.average_s:.2f} x" if each.average_s else "-")
        if _due(each):
            row += [f"{each.met_share:.1%}", str(int(each.guaranteed.sum())), str(each.refused)]
        rows.append(row)
    return rows
