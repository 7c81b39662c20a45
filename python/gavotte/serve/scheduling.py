"""Scores for a scheduler of Kubernetes: which node a pod should get, so that its job finishes soonest.

The scheduler asks by its extender protocol (`k8s.io/kube-scheduler/extender/v1`): `POST .../prioritize` with a pod and
the nodes that fit it, and gets a score of 0 to 10 for each node. `pods` knows where the pods of the other tasks are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import Field

from gavotte import _core
from gavotte.errors import FormatError
from gavotte.export.placed import APP, TASK
from gavotte.extras import needs
from gavotte.formats.app import App
from gavotte.formats.files.reading import Emitted, validate
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.serve.bodies import SOURCE, read_json, refused
from gavotte.serve.pods import TaskNodes

with needs("serve"):
    from aiohttp import web

MOST_SCORE = 10
"""The extender protocol's highest score (`MaxExtenderPriority`)."""

INDICES = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")
"""Labels with which an Indexed Job and a StatefulSet number their pods: pod i is task i of the application.

The number counts only if the Job or the StatefulSet has the application's name, or `APP` names the application.
Kubeflow and JobSet number the pods of each role or job from 0, so that theirs say too little.
"""

JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
"""Labels of a pod with the name of its Job; the second one is of Kubernetes before 1.27."""

POD_NAME = "statefulset.kubernetes.io/pod-name"
"""Label of a StatefulSet's pod with its name: the StatefulSet's name, a dash and the pod's number."""

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

    @cached_property
    def _tasks(self) -> dict[str, list[str]]:
        """By application: its tasks as the Placement names them, in the application's order."""
        several = len(self.placement.apps) > 1
        known = {app.name: app for app in self.apps}
        tasks: dict[str, list[str]] = {}
        for name in self.placement.apps:
            key = f"{name}/" if several else ""
            names = [key + task.name for task in known[name].task] if name in known else self.placement.assignment
            tasks[name] = [task for task in names if task.startswith(key) and task in self.placement.assignment]
        return tasks

    def task_of(self, labels: Mapping[str, str]) -> str | None:
        """Return the task of a pod by its labels; None = it is none of the Placement's.

        1. `gavotte.io/app` names the application. Without this label, it is that of the name of the pod's Job or
           StatefulSet.
        2. `gavotte.io/task` names the task. It may do so alone if the Placement has one application.
        3. Otherwise the pod's number in its Job or StatefulSet is the number of the task.
        """
        apps = self.placement.apps
        if APP in labels and labels[APP] not in apps:
            return None
        app = labels[APP] if APP in labels else owner_of(labels)
        if TASK in labels:
            task = f"{app}/{labels[TASK]}" if len(apps) > 1 else labels[TASK]
            return task if task in self.placement.assignment else None
        tasks = self._tasks.get(app, [])
        number = next((labels[label] for label in INDICES if label in labels), "")
        fits = number.isdecimal() and len(number) <= MOST_DIGITS and int(number) < len(tasks)
        return tasks[int(number)] if fits else None

    def scores(
        self, labels: Mapping[str, str], nodes: Sequence[str], actual: Mapping[str, str] | None = None
    ) -> dict[str, int]:
        """Return a score of 0 to 10 for each node. Others than the best get up to 9 by the time of the pod's transfers.

        1. The planned node is the best as long as the transfers take no longer from there than was planned.
        2. If they do, because peers are elsewhere than planned, the nodes with the least time are the best.
        3. Nodes that were not measured get 0, and so do all nodes of a pod that is no task of the Placement.

        Args:
            labels: the pod's labels.
            nodes: the nodes that fit it.
            actual: the nodes of tasks whose pods have one. Others are expected where they are planned.
        """
        task = self.task_of(labels)
        if task is None:
            return dict.fromkeys(nodes, 0)
        planned, actual = self.placement.assignment[task], actual or {}
        seconds = {node: self.seconds(task, node, actual) for node in nodes if node in self._at}
        finite = {node: time_s for node, time_s in seconds.items() if math.isfinite(time_s)}
        best = self._best(task, nodes, finite)
        # Others than the planned node are compared among themselves.
        compared = [time_s for node, time_s in finite.items() if node not in best or planned not in best]
        least_s, most_s = min(compared, default=0.0), max(compared, default=0.0)
        result = dict.fromkeys(nodes, 0)
        for node, time_s in finite.items():
            if most_s > least_s:
                result[node] = round((MOST_SCORE - 1) * max(most_s - time_s, 0.0) / (most_s - least_s))
        return result | dict.fromkeys(best, MOST_SCORE)

    def planned(self, task: str, nodes: Collection[str], seconds: Mapping[str, float]) -> str | None:
        """Return the planned node of a task if its transfers take no longer from there than was planned, else None.

        Args:
            task: the task.
            nodes: the nodes that fit its pod.
            seconds: those of them from which the task reaches its peers, and the time that its transfers take.
        """
        planned = self.placement.assignment[task]
        if planned not in nodes:
            return None
        if planned not in self._at or not seconds:
            return planned
        least_s, planned_s = min(seconds.values()), seconds.get(planned, math.inf)
        return planned if planned_s <= max(least_s, self.seconds(task, planned)) else None

    def _best(self, task: str, nodes: Sequence[str], seconds: Mapping[str, float]) -> set[str]:
        """Return the nodes that get the highest score; the arguments are those of `planned`."""
        planned = self.planned(task, nodes, seconds)
        if planned is not None:
            return {planned}
        if self.placement.assignment[task] not in nodes:
            return set()
        least_s = min(seconds.values())
        return {node for node, time_s in seconds.items() if time_s == least_s}

    def seconds(self, task: str, node: str, actual: Mapping[str, str] | None = None) -> float:
        """Return the time of a task's transfers one after the other if it ran on a node.

        Args:
            task: the task.
            node: a node of the Network.
            actual: the nodes of peers whose pods have one. Others are where they are planned.
        """
        at, actual, total_s = self._at[node], actual or {}, 0.0
        for (peer, sends), size in self._peers.get(task, {}).items():
            host = self._at.get(actual.get(peer) or self.placement.assignment.get(peer, ""), at)
            if host != at:
                rate_bps = self._rate_bps(at, host) if sends else self._rate_bps(host, at)
                total_s += 8 * size / rate_bps if rate_bps else math.inf
        return total_s

    def _rate_bps(self, source: int, target: int) -> float | None:
        """Return the rate of a pair that has its links for itself, in bit/s; None = unknown.

        A Network of many hosts has caps of hosts and groups instead of rates of pairs. Where some pairs have a rate,
        caps say nothing about the others. Hosts of one machine exchange data through its memory.
        """
        if (source, target) not in self._known_bps:
            known_bps = self.network.pair_bps(source, target)
            if known_bps is not None or not self._paired:
                core, caps_bps = self._caps
                links = [caps_bps[link] for link in core.links(source, target) if link in caps_bps]
                machine = self.network.hosts[source].machine
                together = machine is not None and machine == self.network.hosts[target].machine
                known = [*links, *([] if known_bps is None else [known_bps])]
                known_bps = min(known, default=math.inf if together else None)
            self._known_bps[source, target] = known_bps
        return self._known_bps[source, target]

    @cached_property
    def _known_bps(self) -> dict[tuple[int, int], float | None]:
        """Rates of the pairs that were asked for."""
        return {}

    @cached_property
    def _paired(self) -> bool:
        """Whether any pair has a rate."""
        return self.network.any_rate

    @cached_property
    def _caps(self) -> tuple[_core.Network, dict[tuple[str, int, int], float]]:
        """The Network without pairs' rates, compiled, and the rates of its links, in bit/s."""
        core = _core.Network(self.network.model_copy(update={"rate_bps": [], "latency_s": []}))
        return core, dict(core.deciding())


def owner_of(labels: Mapping[str, str]) -> str:
    """Return the name of a pod's Job or StatefulSet by the labels that Kubernetes gives it; empty = it has none."""
    job = next((labels[label] for label in JOB_NAMES if label in labels), "")
    return job or labels.get(POD_NAME, "").rpartition("-")[0]


class _Owner(Emitted):
    uid: str = ""


class _Metadata(Emitted):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    owners: list[_Owner] | None = Field(alias="ownerReferences", default=None)

    @property
    def owner(self) -> str:
        """Unique identifier of what owns the pod; empty = nothing."""
        return self.owners[0].uid if self.owners else ""


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
        nodes: where pods are; without it, only this service's answers say so.
    """

    def __init__(self, scores: Callable[[], Scores], nodes: TaskNodes | None = None) -> None:
        self._scores = scores
        self._nodes = TaskNodes() if nodes is None else nodes

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.post("/scheduler/prioritize", self.prioritize), web.post("/scheduler/filter", self.keep)]

    async def prioritize(self, request: web.Request) -> web.Response:
        """Return a `HostPriorityList`."""
        try:
            asked = validate(_Arguments, _lowered(await read_json(request)), SOURCE)
        except FormatError as error:
            return refused(error)
        scores, about = self._scores(), asked.pod.metadata
        actual = self._nodes.of(about.namespace, about.owner, scores.task_of)
        result = scores.scores(about.labels or {}, asked.names, actual)
        most = max(result.values(), default=0)
        best = [node for node, score in result.items() if score == most]
        # The documented weight makes this score count more than those of the scheduler's other plugins.
        self._choose(asked, scores, best[0] if most and len(best) == 1 else "")
        return web.json_response([{"host": node, "score": score} for node, score in result.items()])

    async def keep(self, request: web.Request) -> web.Response:
        """Return an `ExtenderFilterResult` with all nodes: a Placement prefers nodes, and forbids none."""
        try:
            document = _lowered(await read_json(request))
            asked = validate(_Arguments, document, SOURCE)
        except FormatError as error:
            return refused(error)
        if len(asked.names) == 1:
            # The scheduler asks for no scores where only one node fits.
            self._choose(asked, self._scores(), asked.names[0])
        return web.json_response(
            {key: document[key] for key in ("nodes", "nodenames") if document.get(key) is not None}
        )

    def _choose(self, asked: _Arguments, scores: Scores, node: str) -> None:
        """Remember the node that the scheduler probably chooses."""
        about = asked.pod.metadata
        task = scores.task_of(about.labels or {})
        if task is not None:
            self._nodes.choose(about.namespace, about.owner, task, node)


def _lowered(document: Any) -> Any:
    """Return a document with its own keys in lower case: Go reads them in any, and older schedulers write others."""
    return {key.lower(): value for key, value in document.items()} if isinstance(document, dict) else document
