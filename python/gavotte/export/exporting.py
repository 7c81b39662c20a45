"""Convert a Placement to the text of a launcher's format, or a Network or a job to that of a scheduler's.

A task's rank is its position in the Placement: the order of the Apps, and within each that of its tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.export import diktyo, hadoop, jobs, labels, manifests, mpi, placed, slurm, tables
from gavotte.export.tree import fitting, tree_of
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement


@dataclass(frozen=True)
class Format:
    """A file format in which a launcher reads a Placement.

    Attributes:
        write: function that converts a Placement to the file's text.
        usage: how to hand the file to the launcher, with `{file}` for its name and `{count}` for the number of tasks.
        undo: how to undo that; empty = nothing stays.
    """

    write: Callable[[Placement], str]
    usage: str
    undo: str = ""


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
    "kubernetes": Format(
        placed.pods,
        "sed 's|image: IMAGE|image: NAME|' {file} | kubectl apply -f -, with cores, commands and volumes added: "
        "the Placement has hosts alone",
        "kubectl delete -f {file}",
    ),
    "ray": Format(
        placed.ray_bundles,
        "placement_group(**json.load(open('{file}'))), where bundle i is for task i and has one CPU, on nodes with the "
        "labels of a Network's --format ray",
    ),
    "dask": Format(
        placed.dask_workers,
        "client.submit(..., workers=json.load(open('{file}'))[TASK]), with workers started by dask worker --name HOST; "
        "a Dask graph's keys are not the App's tasks, so that you choose TASK",
    ),
    "torchrun": Format(
        placed.torchrun,
        "PROGRAM='train.py' sh {file}, where torchrun's own options may precede the program; a host that is several "
        "nodes counts LOCAL_RANK from 0 in each of them",
    ),
    "hadoop-rack": Format(
        hadoop.used_script,
        "chmod +x {file}; give its path to net.topology.script.file.name in core-site.xml; Hadoop knows racks and no "
        "tasks, so that which task is on which host is lost",
        "remove net.topology.script.file.name",
    ),
    "json": Format(tables.as_json, "a list of ranks, each with its task and host"),
    "csv": Format(tables.as_csv, "a table of rank, task and host"),
}
"""Formats of a Placement by name."""


@dataclass(frozen=True)
class TopologyFormat:
    """A file format in which a scheduler reads the topology of a Network.

    Attributes:
        write: function that converts a Network to the file's text, with the names of labels.
        names: names of switches that the scheduler accepts; others are replaced.
        usage: how to hand the file to the scheduler, with `{file}` for its name.
        undo: how to undo that.
        labelled: whether the text has names of labels.
        zoned: whether the text has the hosts' zones instead of switches.
    """

    write: Callable[[Network, labels.Keys], str]
    names: re.Pattern[str]
    usage: str
    undo: str
    labelled: bool = False
    zoned: bool = False


_SLURM_UNDO = "remove the file and TopologyPlugin, and restart Slurm's daemons"

TOPOLOGY_FORMATS: dict[str, TopologyFormat] = {
    "slurm-conf": TopologyFormat(
        slurm.topology_conf,
        slurm.SWITCH_NAME,
        "copy {file} to topology.conf next to slurm.conf, set TopologyPlugin=topology/tree there and restart "
        "Slurm's daemons",
        _SLURM_UNDO,
    ),
    "slurm-blocks": TopologyFormat(
        slurm.blocks_conf,
        slurm.SWITCH_NAME,
        "copy {file} to topology.conf next to slurm.conf, set TopologyPlugin=topology/block there (Slurm 23.11 and "
        "later) and restart Slurm's daemons",
        _SLURM_UNDO,
    ),
    "slurm-yaml": TopologyFormat(
        slurm.topology_yaml,
        slurm.SWITCH_NAME,
        "copy {file} to topology.yaml next to slurm.conf (Slurm 25.05 and later) and restart Slurm's daemons; a "
        "partition with Topology=gavotte-blocks uses blocks instead of the tree",
        _SLURM_UNDO,
    ),
    "topograph": TopologyFormat(
        labels.graph,
        re.compile(".*"),
        "{file} is what Topograph 1.0 answers with the engine `graph`",
        "remove {file}",
        labelled=True,
    ),
    "topograph-labels": TopologyFormat(
        labels.kubectl,
        labels.LABEL_VALUE,
        "sh {file}",
        "sed 's/ --overwrite//; s/=[^ ]*/-/g' {file} | sh",
        labelled=True,
    ),
    "kueue": TopologyFormat(
        manifests.kueue,
        re.compile(".*"),
        "kubectl apply -f {file}, with the nodes labelled by --format topograph-labels",
        "kubectl delete -f {file}",
        labelled=True,
    ),
    "volcano": TopologyFormat(
        manifests.volcano, manifests.OBJECT_NAME, "kubectl apply -f {file}", "kubectl delete -f {file}"
    ),
    "diktyo": TopologyFormat(
        diktyo.network_topology,
        labels.LABEL_VALUE,
        "kubectl apply --server-side -f {file}, with networkTopologyName: gavotte and weightsName: UserDefined for "
        "NetworkOverhead, and zones at the nodes, by --format diktyo-zones if the provider sets none",
        "kubectl delete -f {file}",
        zoned=True,
    ),
    "diktyo-zones": TopologyFormat(
        diktyo.zone_labels, labels.LABEL_VALUE, "sh {file}", "sed 's/=[^ ]*/-/g' {file} | sh", zoned=True
    ),
    "hadoop-rack": TopologyFormat(
        hadoop.rack_script,
        labels.LABEL_VALUE,
        "chmod +x {file}; give its path to net.topology.script.file.name in core-site.xml",
        "remove net.topology.script.file.name",
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

ALIASES = {
    "slurm-topology": "slurm-conf",
    "kubernetes-labels": "topograph-labels",
    "diktyo-network": "diktyo",
}
"""Earlier names of formats, which stay valid."""


@dataclass(frozen=True)
class JobQuestion:
    """A job, and what a scheduler needs to know of it.

    Attributes:
        source: the job's tasks, or the hosts that they were placed on.
        network: the hosts, and the groups that become tiers; for formats with tiers only.
        together: how firmly the job is kept together; for formats with tiers only.
        older_labels: whether labels have the names that Topograph 0.3 to 0.5 gave them.
        seconds: time in which the job's transfers should finish; None = no bandwidth is asked for.
    """

    source: App | Placement
    network: Network | None = None
    together: jobs.Together = "required"
    older_labels: bool = False
    seconds: float | None = None


@dataclass(frozen=True)
class JobFormat:
    """A file format in which a scheduler reads what a job needs.

    Attributes:
        write: function that converts a job to the file's text.
        usage: how to hand the file to the scheduler, with `{file}` for its name and `{name}` for the job's.
        undo: how to undo that.
        tiered: whether the text names a tier of switches. Others are written of an App alone.
        labelled: whether the text has names of labels.
    """

    write: Callable[[JobQuestion], str]
    usage: str
    undo: str
    tiered: bool = True
    labelled: bool = False


def _tiered(write: Callable[[jobs.Job], str]) -> Callable[[JobQuestion], str]:
    """Return the function that writes a job of a question which has a Network."""

    def text(question: JobQuestion) -> str:
        if question.network is None:
            raise GavotteError("network: the tiers are those of a Network", hint="give it by --network")
        keys = labels.OLDER if question.older_labels else labels.CURRENT
        return write(jobs.Job(question.source, question.network, keys, question.together))

    return text


def _app_group(question: JobQuestion) -> str:
    if isinstance(question.source, Placement):
        raise GavotteError("an AppGroup needs bytes, which a Placement lacks", hint="use the *.app.toml")
    return diktyo.app_group(question.source, seconds=question.seconds)


JOB_FORMATS: dict[str, JobFormat] = {
    "kueue-job": JobFormat(
        _tiered(jobs.kueue_job),
        "kubectl patch --local -f job.yaml --patch-file {file} -o yaml | kubectl create -f -",
        "kubectl replace --force -f job.yaml",
        labelled=True,
    ),
    "volcano-job": JobFormat(
        _tiered(jobs.volcano_job),
        "kubectl patch --local --type merge -f job.yaml --patch-file {file} -o yaml | kubectl create -f -",
        "kubectl replace --force -f job.yaml",
    ),
    "kubernetes-podgroup": JobFormat(
        _tiered(jobs.pod_group),
        "kubectl apply -f {file}; give the pods schedulingGroup: {{podGroupName: {name}}}, with the nodes labelled by "
        "--format topograph-labels, in Kubernetes 1.37 with GenericWorkload and TopologyAwareWorkloadScheduling",
        "kubectl delete -f {file}",
        labelled=True,
    ),
    "diktyo-appgroup": JobFormat(
        _app_group,
        "kubectl apply --server-side -f {file}; label the pod of each task with appgroup.diktyo.x-k8s.io: {name} and "
        "appgroup.diktyo.x-k8s.io.workload: TASK",
        "kubectl delete -f {file}",
        tiered=False,
    ),
}
"""Formats of a job by name."""

ALL_FORMATS = tuple(dict.fromkeys((*FORMATS, *TOPOLOGY_FORMATS, *JOB_FORMATS)))
"""Names of all formats: those of a Placement, of a Network, and of a job. A Placement and a Network share some."""


def current_name(form: str) -> str:
    """Return the present name of a format."""
    return ALIASES.get(form, form)


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
    form = current_name(form)
    check_format(form, TOPOLOGY_FORMATS, "a Network")
    if older_labels and not TOPOLOGY_FORMATS[form].labelled:
        raise GavotteError(f"{form} has no labels", hint="leave out --older-labels")
    return TOPOLOGY_FORMATS[form].write(network, labels.OLDER if older_labels else labels.CURRENT)


def export_job(question: JobQuestion, form: str) -> str:
    """Return what a job needs, in a scheduler's format.

    Args:
        question: the job, and what the scheduler needs to know of it.
        form: name of one of `JOB_FORMATS`.

    Returns:
        The text of the file, ending in a newline.

    Raises:
        GavotteError: when the format is unknown, cannot express the job, or no switch has room for it.
    """
    check_format(form, JOB_FORMATS, "a job")
    if question.older_labels and not JOB_FORMATS[form].labelled:
        raise GavotteError(f"{form} has no labels", hint="leave out --older-labels")
    return JOB_FORMATS[form].write(question)


def job_name(question: JobQuestion, form: str) -> str:
    """Return the name by which a scheduler knows a job's pods."""
    if form == "diktyo-appgroup" and isinstance(question.source, App):
        return diktyo.group_name(question.source)
    return jobs.group_of(question.source)


def job_doubts(question: JobQuestion, form: str) -> list[str]:
    """Return a warning for each name of an App that a format cannot have, and if the Network has no groups."""
    check_format(form, JOB_FORMATS, "a job")
    if not JOB_FORMATS[form].tiered:
        return diktyo.doubts_of_app(question.source) if isinstance(question.source, App) else []
    return [_FLAT] if question.network is not None and not question.network.groups else []


_FLAT = "the network has no groups, so that all hosts are at one switch"


def doubts(network: Network, form: str) -> list[str]:
    """Return a warning if the Network has no groups, and one for each group that gets another name.

    A format of zones has no switches: its warnings are about the names of zones.

    Raises:
        GavotteError: when the format is unknown, or the groups form no tree.
    """
    form = current_name(form)
    check_format(form, TOPOLOGY_FORMATS, "a Network")
    if TOPOLOGY_FORMATS[form].zoned:
        return diktyo.doubts_of_zones(network)
    if not network.groups:
        return [_FLAT]
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
