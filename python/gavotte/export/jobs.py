"""Write what a job asks of a scheduler, so that it stays below one switch of the lowest tier that has room for it.

For Kueue and Volcano these are patches for the manifest of a job, and for Kubernetes' own scheduler it is a PodGroup.
Kueue's rules are those of `pkg/controller/jobframework/tas_validation.go`, Volcano's those of
`pkg/webhooks/admission/jobs/validate/admit_job.go`, and Kubernetes' those of `pkg/apis/scheduling/types.go`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from gavotte.errors import GavotteError
from gavotte.export.labels import Keys
from gavotte.export.manifests import OBJECT_NAME
from gavotte.export.tree import fitting, tiers, tree_of
from gavotte.formats.app import App, Constraints, Task
from gavotte.formats.network import Host, Network
from gavotte.formats.parts.names import unknown_host
from gavotte.formats.placement import Placement

Together = Literal["required", "preferred", "unconstrained"]
"""How firmly a scheduler keeps a job together."""


@dataclass(frozen=True)
class Job:
    """A job, and where it may run.

    Attributes:
        source: tasks without constraints, or the hosts of a job that has been placed.
        network: the hosts, and the groups that become tiers.
        keys: names of the labels that nodes have.
        together: how firmly the job is kept together.
    """

    source: App | Placement
    network: Network
    keys: Keys
    together: Together = "required"


def kueue_job(job: Job) -> str:
    """Return the pods' annotation for Kueue, of which a job may have only one, as a patch of a Job.

    Raises:
        GavotteError: as `lowest_tier`, or when the tree has more tiers than the labels.
    """
    value = '"true"' if job.together == "unconstrained" else _label(job)
    lines = ["spec:", "  template:", "    metadata:", "      annotations:"]
    return _text([*lines, f"        kueue.x-k8s.io/podset-{job.together}-topology: {value}"])


def volcano_job(job: Job) -> str:
    """Return the `networkTopology` of a Volcano Job as a patch. Its tier 1 has the hosts, so a host has no tier.

    Raises:
        GavotteError: as `lowest_tier`, or for a job that is unconstrained.
    """
    if job.together == "unconstrained":
        raise GavotteError(
            "--together unconstrained: Volcano has no such mode",
            hint="use the Job without `networkTopology`, or --together preferred",
        )
    lines = ["spec:", "  networkTopology:"]
    if job.together == "preferred":  # Volcano reads a tier in hard mode only
        return _text([*lines, "    mode: soft"])
    return _text([*lines, "    mode: hard", f"    highestTierAllowed: {max(lowest_tier(job), 1)}"])


def pod_group(job: Job) -> str:
    """Return a PodGroup of Kubernetes 1.37, whose own scheduler starts all of its pods in one domain, or none.

    Raises:
        GavotteError: as `kueue_job`, or for a job that is preferred in one domain.
    """
    if job.together == "preferred":
        raise GavotteError(
            "--together preferred: a PodGroup has no such mode", hint="use --together required or unconstrained"
        )
    lines = ["apiVersion: scheduling.k8s.io/v1beta1", "kind: PodGroup", "metadata:"]
    lines += [f"  name: {json.dumps(group_of(job.source))}", "  labels:", "    app.kubernetes.io/managed-by: gavotte"]
    lines += ["spec:", "  schedulingPolicy:", "    gang:", f"      minCount: {_size(job.source)}"]
    if job.together == "required":
        lines += ["  schedulingConstraints:", "    topology:", f"    - key: {_label(job)}"]
    return _text(lines)


def group_of(source: App | Placement) -> str:
    """Return the name of a job's PodGroup, by which its pods know it."""
    return fitting(source.name if isinstance(source, App) else source.apps[0], OBJECT_NAME)


def _size(source: App | Placement) -> int:
    return len(source.task) if isinstance(source, App) else len(source.assignment)


def _label(job: Job) -> str:
    """Return the label of the lowest tier with room for a job; of one host, that of its name."""
    tier = lowest_tier(job)
    return job.keys.of_tiers(tree_of(job.network).height)[tier - 1] if tier else "kubernetes.io/hostname"


def lowest_tier(job: Job) -> int:
    """Return the lowest tier of which one switch has room for a job: 0 = one host, 1 = a switch of hosts, and so on.

    1. A Placement has room where all of its hosts are.
    2. An App has room where its tasks fit by their cores, memory, disk space and resources, the largest task first.
       First fit may miss a way to pack them; the tier is then higher than necessary.

    Raises:
        GavotteError: when the groups form no tree, the Network lacks a host of the Placement, the App has constraints,
            or its tasks do not fit.
    """
    above = tiers(tree_of(job.network))
    if isinstance(job.source, Placement):
        job.source.check_stays("a job")
        used = dict.fromkeys(job.source.assignment.values())
        for host in used:
            if host not in above:
                raise unknown_host(host, above, "the network")
        if len(used) == 1:
            return 0
        ways = [above[host] for host in used]
        return next(tier for tier, switches in enumerate(zip(*ways, strict=True), 1) if len(set(switches)) == 1)
    if job.source.constraints != Constraints():
        key = next(key for key in Constraints.model_fields if getattr(job.source.constraints, key))
        raise GavotteError(
            f"constraints.{key}: the size of a job does not show where this can be kept",
            hint="place the App, and export its Placement",
        )
    for tier, hosts in _domains(job.network, above):
        if _fits(job.source.task, hosts):
            return tier
    cores = sum(task.cpus for task in job.source.task)
    raise GavotteError(
        f"task: {len(job.source.task)} tasks with {cores:g} cores do not fit on the {len(job.network.hosts)} hosts "
        f"with {sum(job.network.offered_cpus):g} cores",
        hint="use a Network with more hosts, or fewer or smaller tasks",
    )


def _domains(network: Network, above: dict[str, list[str]]) -> Iterator[tuple[int, list[Host]]]:
    """Yield each host, then the hosts below each switch, lower tiers first."""
    for host in network.hosts:
        yield 0, [host]
    for tier in range(len(next(iter(above.values())))):
        below: dict[str, list[Host]] = {}
        for host in network.hosts:
            below.setdefault(above[host.name][tier], []).append(host)
        for hosts in below.values():
            yield tier + 1, hosts


def _fits(tasks: Sequence[Task], hosts: Sequence[Host]) -> bool:
    """Return whether the first host with room for each task leaves room for all, the largest tasks first."""
    if sum(task.cpus for task in tasks) > sum(_cores(host) for host in hosts) + _SLACK:
        return False
    used: list[Counter[str]] = [Counter() for _ in hosts]
    before, first = None, 0
    for task in sorted(tasks, key=lambda task: (-task.cpus, -task.memory_bytes, -task.storage_bytes)):
        needs = Counter({"cpus": task.cpus, "memory": task.memory_bytes, "storage": task.storage_bytes})
        needs.update({f"resource {key}": amount for key, amount in task.resources.items()})
        # Hosts without room for a task have none for an equal one.
        before, first = needs, first if needs == before else 0
        for index in range(first, len(hosts)):
            load = used[index]
            if all(load[key] + amount <= _room(hosts[index], key) + _SLACK for key, amount in needs.items()):
                load.update(needs)
                first = index
                break
        else:
            return False
    return True


_SLACK = 1e-9
"""Cores by which sums of fractions may exceed a host's."""


def _cores(host: Host) -> float:
    return host.cpus * host.core_speed


def _room(host: Host, key: str) -> float:
    """Return how much of something a host has; memory and disk space of 0 are unknown and not checked."""
    if key == "cpus":
        return _cores(host)
    if key in {"memory", "storage"}:
        return (host.memory_bytes if key == "memory" else host.storage_bytes) or float("inf")
    return host.resources.get(key.removeprefix("resource "), 0)


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
