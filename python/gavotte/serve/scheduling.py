"""Scores for a scheduler of Kubernetes: which node a pod should get, so that its job finishes soonest.

The scheduler asks by its extender protocol (`k8s.io/kube-scheduler/extender/v1`): `POST .../prioritize` with a pod and
the nodes that fit it, and gets a score of 0 to 10 for each node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gavotte.errors import FormatError
from gavotte.export.placed import APP, TASK
from gavotte.extras import needs
from gavotte.formats.app import App
from gavotte.formats.files.reading import Emitted, validate
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.serve.bodies import SOURCE, read_json, refused

with needs("serve"):
    from aiohttp import web

MOST_SCORE = 10
"""The extender protocol's highest score (`MaxExtenderPriority`)."""

INDICES = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")
"""Labels with which an Indexed Job and a StatefulSet number their pods: pod i is task i of the application.

Kubeflow and JobSet number the pods of each role or job from 0, so that theirs say too little.
"""

MOST_DIGITS = 9
"""Most digits of such a number."""


@dataclass(frozen=True)
class Scores:
    """Scores of nodes for the tasks of a Placement.

    Attributes:
        network: the Network whose hosts are the nodes.
        placement: the Placement to follow.
        apps: its applications; without them, all nodes but the planned one are alike.
    """

    network: Network
    placement: Placement
    apps: Sequence[App] = ()

    @cached_property
    def _at(self) -> dict[str, int]:
        """The number of each host in the Network."""
        return {name: at for at, name in enumerate(self.network.names)}

    @cached_property
    def _peers(self) -> dict[str, dict[tuple[str, bool], int]]:
        """By task: the bytes that it exchanges with each other task, sent (True) or received."""
        several = len(self.placement.apps) > 1
        peers: dict[str, dict[tuple[str, bool], int]] = {}
        for app in self.apps:
            if app.name not in self.placement.apps:
                continue
            key = f"{app.name}/" if several else ""
            for each in app.transfer:
                source, target = key + each.source, key + each.target
                for own, other, sends in ((source, target, True), (target, source, False)):
                    known = peers.setdefault(own, {})
                    known[other, sends] = known.get((other, sends), 0) + each.bytes
        return peers

    def task_of(self, labels: Mapping[str, str]) -> str | None:
        """Return the task of a pod by its labels; None = it is none of the Placement's."""
        if APP in labels and labels[APP] not in self.placement.apps:
            return None
        key = f"{labels[APP]}/" if APP in labels and len(self.placement.apps) > 1 else ""
        if TASK in labels:
            task = key + labels[TASK]
            return task if task in self.placement.assignment else None
        number = next((labels[label] for label in INDICES if label in labels), "")
        tasks = [task for task in self.placement.assignment if task.startswith(key)]
        fits = number.isdecimal() and len(number) <= MOST_DIGITS and int(number) < len(tasks)
        return tasks[int(number)] if fits else None

    def scores(self, labels: Mapping[str, str], nodes: Sequence[str]) -> dict[str, int]:
        """Return a score of 0 to 10 for each node: 10 for the planned one, others by the time of the pod's transfers.

        Nodes that were not measured get 0, and so do all nodes of a pod that is no task of the Placement.

        Args:
            labels: the pod's labels.
            nodes: the nodes that fit it.
        """
        task = self.task_of(labels)
        if task is None:
            return dict.fromkeys(nodes, 0)
        planned = self.placement.assignment[task]
        seconds = {node: self.seconds(task, node) for node in nodes if node in self._at and node != planned}
        finite = [time_s for time_s in seconds.values() if math.isfinite(time_s)]
        least_s, most_s = min(finite, default=0.0), max(finite, default=0.0)
        result = dict.fromkeys(nodes, 0)
        for node, time_s in seconds.items():
            if math.isfinite(time_s) and most_s > least_s:
                result[node] = round((MOST_SCORE - 1) * (most_s - time_s) / (most_s - least_s))
        if planned in result:
            result[planned] = MOST_SCORE
        return result

    def seconds(self, task: str, node: str) -> float:
        """Return the time of a task's transfers one after the other if it ran on a node, and its peers as planned."""
        at, total_s = self._at[node], 0.0
        for (peer, sends), size in self._peers.get(task, {}).items():
            host = self._at.get(self.placement.assignment.get(peer, ""), at)
            if host != at:
                rate_bps = self.network.pair_bps(*((at, host) if sends else (host, at)))
                total_s += 8 * size / rate_bps if rate_bps else math.inf
        return total_s


class _Metadata(Emitted):
    name: str = ""
    labels: dict[str, str] | None = None


class _Pod(Emitted):
    metadata: _Metadata


class _Node(Emitted):
    metadata: _Metadata


class _Nodes(Emitted):
    items: list[_Node] = []


class _Arguments(Emitted):
    """The protocol's `ExtenderArgs`: nodes by their names, or as whole objects if `nodeCacheCapable` is not set."""

    pod: _Pod
    nodes: _Nodes | None = None
    nodenames: list[str] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the nodes."""
        if self.nodenames is not None:
            return self.nodenames
        return [node.metadata.name for node in self.nodes.items] if self.nodes else []


class Extender:
    """The service.

    Args:
        scores: returns the newest scores.
    """

    def __init__(self, scores: Callable[[], Scores]) -> None:
        self._scores = scores

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.post("/scheduler/prioritize", self.prioritize), web.post("/scheduler/filter", self.keep)]

    async def prioritize(self, request: web.Request) -> web.Response:
        """Return a `HostPriorityList`."""
        try:
            asked = validate(_Arguments, _lowered(await read_json(request)), SOURCE)
        except FormatError as error:
            return refused(error)
        scores = self._scores().scores(asked.pod.metadata.labels or {}, asked.names)
        return web.json_response([{"host": node, "score": score} for node, score in scores.items()])

    async def keep(self, request: web.Request) -> web.Response:
        """Return an `ExtenderFilterResult` with all nodes: a Placement prefers nodes, and forbids none."""
        try:
            document = _lowered(await read_json(request))
            validate(_Arguments, document, SOURCE)
        except FormatError as error:
            return refused(error)
        return web.json_response(
            {key: document[key] for key in ("nodes", "nodenames") if document.get(key) is not None}
        )


def _lowered(document: Any) -> Any:
    """Return a document with its own keys in lower case: Go reads them in any, and older schedulers write others."""
    return {key.lower(): value for key, value in document.items()} if isinstance(document, dict) else document
