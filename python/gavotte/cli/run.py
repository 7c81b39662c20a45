"""`gavotte run`: a Placement to measured completion times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.output import Hosts, Json, emit_json, emit_table, note, progress
from gavotte.formats.rates import format_bytes


def run(
    placement: Annotated[Path, typer.Argument(help="A Placement.", metavar="P.placement.json")],
    apps: Annotated[list[Path], typer.Argument(help="The Apps it was made for.", metavar="A.app.toml...")],
    hosts: Hosts,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write Records.", metavar="R.jsonl")] = None,
    max_seconds: Annotated[float, typer.Option("--max-seconds", help="Give up a phase after this.", min=0.1)] = 600.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, send nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Send the application's transfers between the placed tasks, with real bytes, and time them."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.app import read_app
    from gavotte.formats.placement import read_placement
    from gavotte.formats.record import write_records
    from gavotte.run import run as replay
    from gavotte.run import schedule

    placed = read_placement(placement)
    loaded = [read_app(app) for app in apps]
    inventory = resolve_hosts(hosts)
    todo = schedule(placed, loaded)
    crossing = sum(move.bytes for move in todo.moves if move.source != move.target)
    total = sum(move.bytes for move in todo.moves)
    note(
        f"{len(todo.moves)} transfers, {format_bytes(total)}, of which {format_bytes(crossing)} cross the network; "
        f"predicted {placed.completion_s:.3g} s"
    )
    if dry_run:
        if as_json:
            emit_json({"transfers": len(todo.moves), "bytes": total, "network_bytes": crossing})
        return
    with progress("sending") as advance:
        result = replay(placed, loaded, inventory, max_seconds=max_seconds, progress=advance)
    if output is not None:
        write_records(output, result.records(placed))
    if as_json:
        emit_json(
            {
                "completion_s": result.completion_s,
                "predicted_s": placed.completion_s,
                "apps": result.apps,
                "tasks": result.tasks,
                "bytes": result.bytes,
                "network_bytes": crossing,
                "congestion": result.congestion,
                "method": placed.method,
                "seed": placed.seed,
                "transfers": [
                    {
                        "source": done.move.source_task,
                        "target": done.move.target_task,
                        "source_host": done.move.source,
                        "target_host": done.move.target,
                        "bytes": done.move.bytes,
                        "start_s": done.start_s,
                        "finish_s": done.finish_s,
                        "retransmits": done.retransmits,
                    }
                    for done in result.transfers
                ],
            }
        )
        return
    emit_table(["task", "done after s"], [[task, f"{value:.3f}"] for task, value in result.tasks.items()])
    note(f"completed in {result.completion_s:.3f} s, predicted {placed.completion_s:.3f} s")
