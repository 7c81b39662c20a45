"""`gavotte export`: a Placement to what a launcher takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.output import note


def export(
    placement: Annotated[Path, typer.Argument(help="A Placement.", metavar="P.placement.json")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="openmpi (a rankfile), openmpi-seq (for more ranks than cores), mpich, slurm, json or csv.",
        ),
    ],
    app: Annotated[
        str | None, typer.Option("--app", help="Only this application; else all in one job.", metavar="NAME")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write a file.", metavar="FILE")] = None,
) -> None:
    """Write a Placement in the form that a launcher takes; rank i is the i-th task of the Apps."""
    from gavotte.export import FORMATS, only
    from gavotte.export import export as write
    from gavotte.formats.placement import read_placement
    from gavotte.formats.reading import write_text

    placed = read_placement(placement)
    text = write(placed, form, app=app)
    count = len((placed if app is None else only(placed, app)).assignment)
    usage = FORMATS[form].usage.format(file=output or "FILE", count=count)
    if output is None:
        typer.echo(text, nl=False)
        note(f"usage: {usage}")
        return
    write_text(output, text)
    note(f"wrote {output}; usage: {usage}")
