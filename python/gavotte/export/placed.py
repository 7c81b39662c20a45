"""Write a Placement for frameworks that place tasks themselves: Kubernetes, Ray, Dask and torchrun.

Checked by a real cluster, Ray 2.60, distributed 2026.8 and PyTorch's torchrun (`tests/export`). None of these files has
the tasks' cores, bytes or predicted times: a Placement has hosts alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby

from gavotte.errors import GavotteError
from gavotte.export.labels import LABEL_VALUE, RAY_HOST, RAY_VALUE, check_node
from gavotte.export.manifests import OBJECT_NAME
from gavotte.export.tree import fitting
from gavotte.formats.placement import Placement

TASK = "gavotte.io/task"
APP = "gavotte.io/app"
"""Labels of a pod with its task and its application."""

IMAGE = "IMAGE"
"""Image of each container, which the user replaces."""

PORT = 29500
"""Port of torchrun's rendezvous, as torchrun itself chooses it."""


def pods(placement: Placement) -> str:
    """Return a Pod for each task, bound to its node by a required node affinity.

    Raises:
        GavotteError: when a host cannot be a node, or two tasks would have the same pod.
    """
    lines: list[str] = []
    names: dict[str, str] = {}
    for key, app, task, host in _tasks(placement):
        check_node(host)
        name = fitting(f"{app}-{task}", OBJECT_NAME)
        if (other := names.setdefault(name, key)) != key:
            raise GavotteError(f"tasks `{other}` and `{key}` would both be the pod `{name}`", hint="rename one")
        lines += ["---", "apiVersion: v1", "kind: Pod", "metadata:", f"  name: {json.dumps(name)}", "  labels:"]
        lines += [f"    {APP}: {json.dumps(fitting(app, LABEL_VALUE))}"]
        lines += [f"    {TASK}: {json.dumps(fitting(task, LABEL_VALUE))}", "spec:", "  restartPolicy: Never"]
        lines += ["  affinity:", "    nodeAffinity:", "      requiredDuringSchedulingIgnoredDuringExecution:"]
        lines += [
            "        nodeSelectorTerms:",
            "        - matchExpressions:",
            "          - key: kubernetes.io/hostname",
        ]
        lines += ["            operator: In", f"            values: [{json.dumps(host)}]"]
        lines += ["  containers:", "  - name: task", f"    image: {IMAGE}"]
    return _text(lines)


def ray_bundles(placement: Placement) -> str:
    """Return the arguments of Ray's `placement_group` as JSON: one bundle of one CPU for each task, in their order.

    Nodes are known by the label that the format `ray` of a Network gives them.
    """
    hosts = list(placement.assignment.values())
    document = {
        "bundles": [{"CPU": 1} for _ in hosts],
        "bundle_label_selector": [{RAY_HOST: fitting(host, RAY_VALUE)} for host in hosts],
    }
    return json.dumps(document, indent=2) + "\n"


def dask_workers(placement: Placement) -> str:
    """Return the host of each task as JSON, for the argument `workers` of Dask's `Client.submit`."""
    return json.dumps(placement.assignment, indent=2, ensure_ascii=False) + "\n"


def torchrun(placement: Placement) -> str:
    """Return a script that starts torchrun on each host, with the static rendezvous, so that rank i is task i.

    torchrun numbers the ranks of a node in sequence. A host whose ranks are in several sequences is several nodes.
    """
    runs = [(host, len(list(ranks))) for host, ranks in groupby(placement.assignment.values())]
    lines = [
        "#!/bin/sh",
        "# Starts torchrun on each host by ssh; rank i is task i of the Placement.",
        ': "${PROGRAM:?}"',
    ]
    for node, (host, count) in enumerate(runs):
        options = f"--nnodes={len(runs)} --node_rank={node} --nproc_per_node={count} --rdzv_backend=static"
        master = f"--master_addr={runs[0][0]} --master_port=${{PORT:-{PORT}}}"
        lines.append(f'ssh -n {host} "torchrun {options} {master} $PROGRAM" & jobs="$jobs $!"')
    lines += ["status=0", "for job in $jobs; do wait $job || status=$?; done", "exit $status"]
    return _text(lines)


def _tasks(placement: Placement) -> Iterator[tuple[str, str, str, str]]:
    """Yield the key, application, name and host of each task."""
    for key, host in placement.assignment.items():
        app, mark, task = key.partition("/")
        yield (key, app, task, host) if mark else (key, placement.apps[0], key, host)


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
