"""`gavotte shim`: build the library that runs an unchanged program's collectives along trees."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json
from gavotte.cli.output import emit_json, note
from gavotte.cli.writing import to_write


@declared
def shim(
    output: Annotated[Path, to_write("Write the library to this file.", "FILE.so")] = Path("libgavotte-mpi.so"),
    mpicc: str = option("C compiler of the MPI that the program uses.", "COMMAND", default="mpicc"),
    count: bool = option("Build the library that counts bytes for `gavotte profile pmpi` instead.", default=False),
    as_json: Json = False,
) -> None:
    """Build a library that, when preloaded, runs an MPI program's collectives along trees, given or found."""
    from gavotte.collective import build_shim

    build_shim(output, mpicc=mpicc, counting=count)
    if as_json:
        emit_json({"output": str(output)})
        return
    variable = "GAVOTTE_COUNTS=job" if count else "GAVOTTE_TREES=trees.txt or GAVOTTE_TUNE=self"
    note(f"wrote {output}; usage: set LD_PRELOAD={output.absolute()} and {variable} for every rank")
