"""Convert a Placement to the text of a launcher's format, or a Network to that of a scheduler's.

A task's rank is its position in the Placement: the order of the Apps, and within each that of its tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.export import labels, manifests, mpi, slurm, tables
from gavotte.export.tree import fitting, tree_of
from gavotte.formats.network import Network
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
"""Formats of a Placement by name."""

UNWRITTEN = ("kubernetes", "diktyo", "dask", "torchrun", "hadoop-rack")
"""Launchers whose own format is not supported yet."""


@dataclass(frozen=True)
class TopologyFormat:
    """A file format in which a scheduler reads the topology of a Network.

    Attributes:
        write: function that converts a Network to the file's text, with the names of labels.
        names: names of switches that the scheduler accepts; others are replaced.
        usage: how to hand the file to the scheduler, with `{file}` for its name.
        undo: how to undo that.
        labelled: whether the text has names of labels.
    """

    write: Callable[[Network, labels.Keys], str]
    names: re.Pattern[str]
    usage: str
    undo: str
    labelled: bool = False


_SLURM_UNDO = "remove the file and TopologyPlugin, and restart Slurm's daemons"

TOPOLOGY_FORMATS: dict[str, TopologyFormat] = {
    "slurm-topology": TopologyFormat(
        slurm.topology_conf,
        slurm.SWITCH_NAME,
        "copy {file} to topology.conf next to slurm.conf, set TopologyPlugin=topology/tree there and restart "
        "Slurm's daemons",
        _SLURM_UNDO,
    ),
    "slurm-yaml": TopologyFormat(
        slurm.topology_yaml,
        slurm.SWITCH_NAME,
        "copy {file} to topology.yaml next to slurm.conf (Slurm 25.05 and later) and restart Slurm's daemons",
        _SLURM_UNDO,
    ),
    "topograph": TopologyFormat(
        labels.graph,
        re.compile(".*"),
        "{file} is what Topograph 1.0 answers with the engine `graph`",
        "remove {file}",
        labelled=True,
    ),
    "kubernetes-labels": TopologyFormat(
        labels.kubectl,
        labels.LABEL_VALUE,
        "sh {file}",
        "sed 's/ --overwrite//; s/=[^ ]*/-/g' {file} | sh",
        labelled=True,
    ),
    "kueue": TopologyFormat(
        manifests.kueue,
        re.compile(".*"),
        "kubectl apply -f {file}, with the nodes labelled by --format kubernetes-labels",
        "kubectl delete -f {file}",
        labelled=True,
    ),
    "volcano": TopologyFormat(
        manifests.volcano, manifests.OBJECT_NAME, "kubectl apply -f {file}", "kubectl delete -f {file}"
    ),
    "ray": TopologyFormat(
        labels.ray_start,
        labels.RAY_VALUE,
        "RAY_HEAD=ADDRESS:6379 sh {file}, after `ray start --head --port=6379` on one host",
        "sed 's/ray start.*/ray stop/' {file} | sh",
        labelled=True,
    ),
}
"""Formats of a Network by name."""

ALL_FORMATS = (*FORMATS, *TOPOLOGY_FORMATS)
"""Names of all formats, those of a Placement first."""


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
    check_format(form, FORMATS, "a Placement")
    placement.check_stays("a host file")
    return FORMATS[form].write(placement if app is None else only(placement, app))


def export_network(network: Network, form: str, *, older_labels: bool = False) -> str:
    """Return the text of a Network in a scheduler's format.

    Args:
        network: the hosts, and the groups that become switches.
        form: name of one of `TOPOLOGY_FORMATS`.
        older_labels: whether labels have the names that Topograph 0.3 to 0.5 gave them.

    Returns:
        The text of the file, ending in a newline.

    Raises:
        GavotteError: when the format is unknown, the groups form no tree, or the scheduler does not accept the hosts'
            names or as many tiers of switches.
    """
    check_format(form, TOPOLOGY_FORMATS, "a Network")
    if older_labels and not TOPOLOGY_FORMATS[form].labelled:
        raise GavotteError(f"{form} has no labels", hint="leave out --older-labels")
    return TOPOLOGY_FORMATS[form].write(network, labels.OLDER if older_labels else labels.CURRENT)


def doubts(network: Network, form: str) -> list[str]:
    """Return a warning if the Network has no groups, and one for each group that gets another name.

    Raises:
        GavotteError: when the format is unknown, or the groups form no tree.
    """
    check_format(form, TOPOLOGY_FORMATS, "a Network")
    if not network.groups:
        return ["the network has no groups, so that all hosts are at one switch"]
    names = TOPOLOGY_FORMATS[form].names
    switches = [(switch.name, fitting(switch.name, names)) for switch in tree_of(network).walk()]
    return [
        f"switch `{name}` is written as `{other}`: {form} does not allow its name"
        for name, other in switches
        if name != other
    ]


def check_format(form: str, known: Collection[str], noun: str) -> None:
    """Refuse the name of a format in which a noun cannot be written.

    Args:
        form: the name.
        known: the formats of the noun.
        noun: the noun with its article.

    Raises:
        GavotteError: naming the formats that the noun has.
    """
    if form in known:
        return
    if form in UNWRITTEN:
        raise GavotteError(f"format `{form}` is not supported yet", hint="use json or csv and convert it")
    if form in ALL_FORMATS:
        raise GavotteError(f"format `{form}` is not for {noun}", hint=f"use {', '.join(known)}")
    raise GavotteError(f"unknown format `{form}`", hint=f"use {', '.join(ALL_FORMATS)}")


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
