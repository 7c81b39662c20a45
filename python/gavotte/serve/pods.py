"""Nodes on which the pods of a Placement's tasks are, as far as they are known.

There are two sources. Kubernetes reports a pod's node shortly after its scheduler has decided, and also after a restart
of this service. Until then, and without a cluster, the scores that the scheduler got say which node it has chosen.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gavotte.agents.kubeconfig import CALL_LIMIT_S, DAMAGED, api_errors
from gavotte.errors import GavotteError

CHOICE_S = 30.0
"""Time after which a choice that the cluster never confirmed is dropped, in seconds."""

MOST_CHOICES = 100_000
"""Most choices that are remembered."""

WATCH_S = 50.0
"""Time after which all pods are listed again, in seconds. Many load balancers cut connections after a minute."""

PAGE = 500
"""Pods that are listed at a time."""

ENDED = ("Succeeded", "Failed")
"""Phases of a pod that runs no more."""

TaskOf = Callable[[Mapping[str, str]], str | None]
"""Returns the task of a pod by its labels."""


@dataclass(frozen=True)
class PodNode:
    """A pod that the cluster knows.

    Attributes:
        labels: its labels.
        node: its node; empty = it has none yet, has ended, or is being deleted.
        created_s: Unix time at which it was made.
    """

    labels: Mapping[str, str]
    node: str
    created_s: float = 0.0


class TaskNodes:
    """Where pods are: by the cluster, else by what the scheduler has probably chosen.

    Args:
        clock: time in seconds that never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pods: dict[str, dict[tuple[str, str], PodNode]] = {}
        self._choices: OrderedDict[tuple[str, str, str], tuple[str, float]] = OrderedDict()

    def choose(self, namespace: str, owner: str, task: str, node: str) -> None:
        """Remember which node the scheduler has probably chosen for a task; empty = it is unknown.

        Args:
            namespace: namespace of the task's pod.
            owner: unique identifier of the object that owns the pod, so that the next run of a job starts afresh.
            task: the task.
            node: the node.
        """
        key = (namespace, owner, task)
        with self._lock:
            self._choices.pop(key, None)
            if node:
                self._choices[key] = (node, self._clock())
            while len(self._choices) > MOST_CHOICES:
                self._choices.popitem(last=False)

    def listed(self, selector: str, pods: Mapping[tuple[str, str], PodNode]) -> None:
        """Replace all pods of a selector, by namespace and name."""
        with self._lock:
            self._pods[selector] = dict(pods)

    def changed(self, selector: str, key: tuple[str, str], pod: PodNode | None) -> None:
        """Replace one pod; None = it is gone."""
        with self._lock:
            pods = self._pods.setdefault(selector, {})
            if pod is None:
                pods.pop(key, None)
            else:
                pods[key] = pod

    def of(self, namespace: str, owner: str, task_of: TaskOf) -> dict[str, str]:
        """Return the node of each task whose pod has one.

        1. The cluster's answer counts. If several pods are one task, the youngest counts.
        2. Otherwise the scheduler's probable choice counts. With a cluster, it does so for `CHOICE_S`.

        Args:
            namespace: namespace of the pods.
            owner: unique identifier of the object that owns them; empty = they have none.
            task_of: returns the task of a pod by its labels.
        """
        with self._lock:
            since_s = self._clock() - CHOICE_S if self._pods else 0.0
            nodes = {
                task: node
                for (place, chosen_owner, task), (node, time_s) in self._choices.items()
                if (place, chosen_owner) == (namespace, owner) and time_s >= since_s
            }
            pods = {key: pod for each in self._pods.values() for key, pod in each.items() if key[0] == namespace}
        for pod in sorted(pods.values(), key=lambda pod: pod.created_s):
            task = task_of(pod.labels) if pod.node else None
            if task is not None:
                nodes[task] = pod.node
        return nodes


class PodWatch:
    """Keeps `TaskNodes` current by a cluster. Use it in `with`.

    Args:
        api: a client of the cluster, which repeats no calls.
        nodes: what to keep current.
        labels: labels of the pods to follow: a pod needs one of them.
        complain: called with a warning.
    """

    def __init__(self, api: Any, nodes: TaskNodes, labels: Sequence[str], complain: Callable[[str], None]) -> None:
        from kubernetes import client

        self._core: Any = client.CoreV1Api(api)
        self._nodes = nodes
        self._complain = complain
        self._stop = threading.Event()
        self._away: set[str] = set()
        self._marking = threading.Lock()
        self._tried = {label: threading.Event() for label in labels}

    def __enter__(self) -> PodWatch:
        """Begin, and wait for the first answers, so that no score ignores pods that ran before."""
        for label in self._tried:
            threading.Thread(target=self._keep, args=(label,), name=f"pods {label}", daemon=True).start()
        for event in self._tried.values():
            event.wait(CALL_LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _keep(self, label: str) -> None:
        """Follow the pods with a label until the end, also while the API server comes and goes."""
        failures = 0
        while not self._stop.is_set():
            try:
                with api_errors("list pods", "pods: list, watch"):
                    self._follow(label)
                failures = 0
            except (GavotteError, *DAMAGED) as error:
                with self._marking:
                    is_first = not self._away
                    self._away.add(label)
                if is_first:
                    reason = error if isinstance(error, GavotteError) else "Kubernetes sent a damaged list of pods"
                    self._complain(f"{reason}; trying again until it does, and scoring by what is known")
                failures += 1
            self._tried[label].set()
            if failures:
                self._stop.wait(min(0.5 * 2**failures, CALL_LIMIT_S))

    def _follow(self, label: str) -> None:
        """List the pods with a label, and take changes for `WATCH_S`."""
        from kubernetes import watch

        pods: dict[tuple[str, str], PodNode] = {}
        token, version = None, ""
        while True:
            page = self._core.list_pod_for_all_namespaces(
                label_selector=label, limit=PAGE, _continue=token, _request_timeout=CALL_LIMIT_S
            )
            pods.update(map(_known, page.items))
            token, version = page.metadata._continue, page.metadata.resource_version
            if not token:
                break
        self._nodes.listed(label, pods)
        self._tried[label].set()
        self._away.discard(label)
        following: Any = watch
        events: Iterable[Any] = following.Watch().stream(
            self._core.list_pod_for_all_namespaces,
            label_selector=label,
            resource_version=version,
            timeout_seconds=int(WATCH_S),
            _request_timeout=(CALL_LIMIT_S, WATCH_S + CALL_LIMIT_S),
        )
        for event in events:
            if self._stop.is_set():
                return
            key, pod = _known(event["object"])
            self._nodes.changed(label, key, None if event["type"] == "DELETED" else pod)


def _known(pod: Any) -> tuple[tuple[str, str], PodNode]:
    about = pod.metadata
    gone = about.deletion_timestamp is not None or pod.status.phase in ENDED
    created_s = about.creation_timestamp.timestamp() if about.creation_timestamp else 0.0
    node = "" if gone else pod.spec.node_name or ""
    return (about.namespace, about.name), PodNode(about.labels or {}, node, created_s)
