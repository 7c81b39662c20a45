"""Predicted seconds for the scheduler plugin in `packaging/kubernetes/scheduler`, which has 101 scores for nodes.

Unlike the extender's question, the plugin's says which pods of a job already have a node.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.app import App, Constraints, Task
from gavotte.formats.files.reading import Emitted, validate
from gavotte.place import Question
from gavotte.serve.bodies import SOURCE, read_json, refused
from gavotte.serve.scheduling import Scores

with needs("serve"):
    from aiohttp import web


class _Pod(Emitted):
    labels: dict[str, str]
    node: str


class _NodesQuestion(Emitted):
    labels: dict[str, str]
    nodes: list[str]
    peers: list[_Pod] = []


class _CompletionQuestion(Emitted):
    pods: list[_Pod]


class Predictor:
    """The service.

    Args:
        scores: returns the newest scores.
    """

    def __init__(self, scores: Callable[[], Scores]) -> None:
        self._scores = scores
        self._compiled: tuple[Scores, Question] | None = None

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.post("/scheduler/seconds", self.seconds), web.post("/scheduler/completion", self.completion)]

    async def seconds(self, request: web.Request) -> web.Response:
        """Return the seconds of a pod's transfers on each node, and the planned node if that is good."""
        return await _answered(request, _NodesQuestion, self._nodes)

    async def completion(self, request: web.Request) -> web.Response:
        """Return the predicted completion time with pods on these nodes, and all other tasks as planned."""
        return await _answered(request, _CompletionQuestion, self._completion)

    def _nodes(self, asked: _NodesQuestion) -> dict[str, Any]:
        scores = self._scores()
        task = scores.task_of(asked.labels)
        if task is None:
            return {"planned": None, "seconds": {}}
        actual = _actual(scores, asked.peers)
        measured = set(scores.network.names)
        seconds = {node: scores.seconds(task, node, actual) for node in asked.nodes if node in measured}
        finite = {node: time_s for node, time_s in seconds.items() if math.isfinite(time_s)}
        return {
            "planned": scores.planned(task, asked.nodes, finite),
            "seconds": dict.fromkeys(asked.nodes) | finite,
        }

    def _completion(self, asked: _CompletionQuestion) -> dict[str, float | None]:
        scores = self._scores()
        actual = _actual(scores, asked.pods)
        time_s = self._completion_s(scores, actual) if actual else math.inf
        return {"seconds": time_s if math.isfinite(time_s) else None}

    def _completion_s(self, scores: Scores, actual: Mapping[str, str]) -> float:
        """Return the completion time that `place` predicts; infinite = an App, a task or a host is unknown."""
        if self._compiled is None or self._compiled[0] is not scores:
            apps = [_anywhere(app) for app in scores.apps if app.name in scores.placement.apps]
            self._compiled = scores, Question(scores.network, apps)
        question = self._compiled[1]
        if {app.name for app in question.apps} != set(scores.placement.apps):
            return math.inf
        assignment = {**scores.placement.assignment, **actual}
        hosts = {name: at for at, name in enumerate(scores.network.names)}
        if not hosts.keys() >= set(assignment.values()):
            return math.inf
        instance = question.as_used(assignment).instance
        if not assignment.keys() >= set(instance.tasks):
            return math.inf
        return instance.core.evaluate(np.array([hosts[assignment[task]] for task in instance.tasks], np.uint32)).seconds


def _anywhere(app: App) -> App:
    """Return an App whose tasks fit on any host: the scheduler knows itself where its pods may run."""
    tasks = [Task(name=task.name, cpus=0.0) for task in app.task]
    return app.model_copy(update={"task": tasks, "constraints": Constraints.model_construct()})


def _actual(scores: Scores, pods: Sequence[_Pod]) -> dict[str, str]:
    """Return the nodes of the pods that are tasks."""
    tasks = ((scores.task_of(pod.labels), pod.node) for pod in pods)
    return {task: node for task, node in tasks if task is not None}


async def _answered(
    request: web.Request, kind: type[Emitted], answer: Callable[[Any], Mapping[str, Any]]
) -> web.Response:
    """Return the answer to a question of this kind, or one line that says why there is none."""
    try:
        asked = validate(kind, await read_json(request), SOURCE)
        return web.json_response(await asyncio.to_thread(answer, asked))
    except GavotteError as error:
        return refused(error)
