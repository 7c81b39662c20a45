"""The front door: a Placement and the name of a format in, text out.

A task's rank is its position in the Placement: the order of the Apps, and within each that of its tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.export import mpi, tables
from gavotte.formats.placement import Placement


@dataclass(frozen=True)
class Format:
    """A form in which a launcher takes a Placement.

    Attributes:
        write: makes the text.
        usage: how to hand the file to the launcher, with `{file}` for its name and `{count}` for the number of tasks.
    """

    write: Callable[[Placement], str]
    usage: str


FORMATS: dict[str, Format] = {
    "openmpi": Format(mpi.rankfile, "mpirun --rankfile {file} -np {count} PROGRAM (Open MPI 4)"),
    "hostfile-seq": Format(
        mpi.one_line_a_rank, "mpirun --hostfile {file} --mca rmaps seq -np {count} PROGRAM (Open MPI 4)"
    ),
    "openmpi5": Format(mpi.one_line_a_rank, "mpirun --map-by seq:file={file} -np {count} PROGRAM (Open MPI 5)"),
    "mpich": Format(mpi.hydra, "mpiexec -f {file} -n {count} PROGRAM (MPICH's hydra; also Intel MPI)"),
    "slurm": Format(
        mpi.one_line_a_rank, "SLURM_HOSTFILE={file} srun --distribution=arbitrary --ntasks={count} PROGRAM"
    ),
    "json": Format(tables.as_json, "a list of ranks, each with its task and host"),
    "csv": Format(tables.as_csv, "a table of rank, task and host"),
}
"""Formats by name."""


def export(placement: Placement, form: str) -> str:
    """Writes a Placement as a launcher takes it.

    Args:
        placement: from `place`.
        form: one of `FORMATS`.

    Returns:
        The text of the file, ending in a newline.

    Raises:
        GavotteError: when there is no such format, or a host's name means something else in it.
    """
    if form not in FORMATS:
        raise GavotteError(f"there is no format `{form}`", hint=f"use {', '.join(FORMATS)}")
    return FORMATS[form].write(placement)
