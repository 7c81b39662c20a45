"""`gavotte shim`: the library that runs an unchanged program's collectives along trees."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.output import note


def shim(
    output: Annotated[Path, typer.Option("-o", "--output", help="The library to build.", metavar="FILE.so")] = Path(
        "libgavotte-mpi.so"
    ),
    mpicc: Annotated[str, typer.Option("--mpicc", help="The C compiler of the MPI that the program uses.")] = "mpicc",
) -> None:
    """Build the library that, preloaded, runs an unchanged program's collectives along given trees and rings."""
    from gavotte.collective import build_shim

    build_shim(output, mpicc=mpicc)
    note(f"wrote {output}; usage: LD_PRELOAD={output.absolute()} GAVOTTE_TREES=trees.txt for every rank")
