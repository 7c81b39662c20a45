"""`gavotte export`: write a Placement in the format of a launcher."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.options import Json, PlacementFile
from gavotte.cli.output import emit_json, note, warn
from gavotte.cli.writing import to_write


@declared
def export(
    placement: PlacementFile,
    form: str = option(
        "Format to write. openmpi is a rankfile, and openmpi-seq is for more ranks than cores.",
        None,
        "--format",
        default=REQUIRED,
    ),
    app: str | None = option("Export only this application. By default all of them, as one job."),
    network: Path | None = option(
        "Warn if a host gets more ranks than it has cores in this Network.", "N.network.json"
    ),
    output: Annotated[Path | None, to_write("Write to this file instead of stdout.", "FILE")] = None,
    as_json: Json = False,
) -> None:
    """Write a Placement as a launcher's host file. Rank i is the i-th task of the Apps."""
    from gavotte.export import FORMATS, crowded, only
    from gavotte.export import export as write
    from gavotte.formats.files.reading import write_text
    from gavotte.formats.network import read_network
    from gavotte.formats.placement import read_placement

    placed = read_placement(placement)
    text = write(placed, form, app=app)
    chosen = placed if app is None else only(placed, app)
    count = len(chosen.assignment)
    warnings = []
    if network is not None:
        warnings = crowded(chosen, form, {host.name: host.cpus for host in read_network(network).hosts})
    warn(warnings)
    usage = FORMATS[form].usage.format(file=output or "FILE", count=count)
    if output is not None:
        write_text(output, text)
    if as_json:
        content = {"content": text} if output is None else {"output": str(output)}
        emit_json({"format": form, "ranks": count, "usage": usage, "warnings": warnings} | content)
    elif output is None:
        typer.echo(text, nl=False)
        note(f"usage: {usage}")
    else:
        note(f"wrote {output}; usage: {usage}")
