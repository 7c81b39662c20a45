"""Convert a Placement to the text of a named launcher format.

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
    """A file format in which a launcher reads a Placement.

    Attributes:
        write: function that converts a Placement to the file's text.
        usage: how to hand the file to the launcher, with `{file}` for its name and `{count}` for the number of tasks.
    """

    write: Callable[[Placement], str]
    usage: str


FORMATS: dict[str, Format] = {
    "openmpi": Format(
        mpi.rankfile,
        "mpirun --rankfile {file} -np {count} PROGRAM (Open MPI 4), "
        "mpirun --map-by rankfile:file={file} -np {count} PROGRAM (Open MPI 5)",
    ),
    "openmpi-seq": Format(
        mpi.one_line_a_rank,
        "mpirun --oversubscribe --bind-to none --mca rmaps seq --hostfile {file} -np {count} PROGRAM (Open MPI 4), "
        "mpirun --bind-to none --map-by seq:file={file}:OVERSUBSCRIBE -np {count} PROGRAM (Open MPI 5)",
    ),
    "mpich": Format(mpi.hydra, "mpiexec -f {file} -n {count} PROGRAM (MPICH's hydra; also Intel MPI)"),
    "slurm": Format(
        mpi.one_line_a_rank, "SLURM_HOSTFILE={file} srun --distribution=arbitrary --ntasks={count} PROGRAM"
    ),
    "json": Format(tables.as_json, "a list of ranks, each with its task and host"),
    "csv": Format(tables.as_csv, "a table of rank, task and host"),
}
"""Supported formats by name."""

UNWRITTEN = ("kubernetes", "diktyo", "ray", "dask", "torchrun", "hadoop-rack")
"""Launchers whose own format is not supported yet."""


def export(placement: Placement, form: str, *, app: str | None = None) -> str:
    """Return the text of a Placement in a launcher's format.

    Args:
        placement: result of `place`.
        form: name of one of `FORMATS`.
        app: the only application to write, with ranks from 0; None = all applications, as one job.

    Returns:
        The text of the file, ending in a newline.

    Raises:
        GavotteError: when the format or the application is unknown, or a task moves between phases.
    """
    if form in UNWRITTEN:
        raise GavotteError(f"format `{form}` is not supported yet", hint="use json or csv and convert it")
    if form not in FORMATS:
        raise GavotteError(f"unknown format `{form}`", hint=f"use {', '.join(FORMATS)}")
    placement.check_stays("a host file")
    return FORMATS[form].write(placement if app is None else only(placement, app))


def only(placement: Placement, app: str) -> Placement:
    """Return the part of a Placement that covers one application, with task names without the prefix `APP/`.

    Raises:
        GavotteError: when the Placement has no such application.
    """
    if app not in placement.apps:
        raise GavotteError(f"the placement has no application `{app}`", hint=f"it has {', '.join(placement.apps)}")
    if len(placement.apps) == 1:
        return placement
    prefix = f"{app}/"
    own = {task.removeprefix(prefix): host for task, host in placement.assignment.items() if task.startswith(prefix)}
    return placement.model_copy(update={"apps": [app], "assignment": own})
