"""`gavotte run`: replay a Placement's transfers and measure completion times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gavotte.cli.declared import declared, option
from gavotte.cli.options import AppFiles, Hosts, Json, PlacementFile
from gavotte.cli.output import emit_json, emit_table, note, warn
from gavotte.cli.progress import BYTES, progress
from gavotte.cli.writing import to_write
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes


@declared
def run(
    placement: PlacementFile,
    apps: AppFiles,
    hosts: Hosts,
    output: Annotated[Path | None, to_write("Write Records to this file.", "R.jsonl")] = None,
    max_seconds: float = option("Give up if a phase takes longer than this.", "SECONDS", default=600.0, min=0.1),
    dry_run: bool = option("Print what would be sent and send nothing.", default=False),
    as_json: Json = False,
) -> None:
    """Send the bytes that the placed tasks exchange over the real network, and time them."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.app import read_app
    from gavotte.formats.placement import read_placement
    from gavotte.formats.record import write_records
    from gavotte.run import host_transfers
    from gavotte.run import run as replay

    placed = read_placement(placement)
    loaded = [read_app(app) for app in apps]
    inventory = resolve_hosts(hosts)
    todo = host_transfers(placed, loaded)
    crossing = sum(each.bytes for each in todo.transfers if each.source != each.target)
    total = sum(each.bytes for each in todo.transfers)
    note(
        f"{counted(len(todo.transfers), 'transfer')}, {format_bytes(total)}, of which {format_bytes(crossing)} cross "
        f"the network; predicted {placed.completion_s:.3g} s"
    )
    if dry_run:
        if as_json:
            emit_json({"transfers": len(todo.transfers), "bytes": total, "network_bytes": crossing})
        return
    with progress("sending", BYTES) as advance:
        result = replay(placed, loaded, inventory, max_seconds=max_seconds, progress=advance)
    warn(result.warnings)
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
                "transfers": result.to_records(),
            }
        )
        return
    emit_table(["task", "done after s"], [[task, f"{value:.3f}"] for task, value in result.tasks.items()])
    note(f"completed in {result.completion_s:.3f} s, predicted {placed.completion_s:.3f} s")
