"""A campaign's agents in a Kubernetes cluster: DaemonSets run them on chosen nodes, a Secret has their keys."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from gavotte.agents.kubeconfig import CALL_LIMIT_S, api_errors, one_line
from gavotte.agents.kubeconfig import connected as connected
from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.campaign import Campaign, Driver
from gavotte.formats.parts.routes import CONTROL_PORT, DATA_PORT

logger = logging.getLogger(__name__)

MARK = "gavotte/campaign"
"""Label of every object that a campaign creates. The next run finds the objects of a killed run by it."""
SLOT = "gavotte/slot"
"""Label with an agent's number on its node.

Each number has its own DaemonSet, because a DaemonSet runs one pod per node.
"""
CONTAINER = "agent"
KEYS_FOLDER = "/etc/gavotte"
POLL_S = 1.0
GONE_LIMIT_S = 120.0
HOPELESS = frozenset({"CrashLoopBackOff", "ErrImageNeverPull", "InvalidImageName"})
"""Reasons of a waiting container that waiting longer does not fix. Pulling an image may still succeed."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Place:
    """Node on which an endpoint's agent runs, and the agent's number on it.

    Attributes:
        node: name of the node.
        slot: number of the agent on the node, from 0.
    """

    node: str
    slot: int


@dataclass(frozen=True)
class Pod:
    """Pod in which an endpoint's agent runs.

    Attributes:
        name: the pod's name in the namespace.
        address: the pod's address in the pods' network, or the node's with host networking.
        node: name of the pod's node.
    """

    name: str
    address: str
    node: str


class Cluster:
    """The pods and the Secret of one campaign in a namespace of a cluster.

    Args:
        api: a client of the cluster.
        driver: the campaign's driver, which says what to create.
        mark: label of the objects that belong to the campaign, the same in every run of it.
        report: is called with each line of progress.
    """

    def __init__(self, api: Any, driver: Driver, mark: str, report: Report) -> None:
        from kubernetes import client

        self.api = api
        # The client's types mark fields as optional that the cluster always sets.
        self._core: Any = client.CoreV1Api(api)
        self._apps: Any = client.AppsV1Api(api)
        self._driver = driver
        self._mark = mark
        self.report = report
        self._mine: dict[str, Any] = {"namespace": driver.namespace, "label_selector": f"{MARK}={mark}"}

    def make(self, places: Mapping[str, Place], keys: Mapping[str, bytes]) -> None:
        """Delete the objects that a killed run left, then create the Secret and the DaemonSets.

        Args:
            places: endpoint to its place.
            keys: file name to content, of the files that an agent needs for TLS.

        Raises:
            GavotteError: when the cluster refuses, or pods of an earlier run do not end.
        """
        self.delete()
        if left := self._pods():
            raise GavotteError(
                f"{len(left)} pods of an earlier run do not end, the first {left[0].metadata.name}",
                hint=f"see `kubectl get pods -n {self._driver.namespace} -l {MARK}={self._mark}`",
            )
        with api_errors("make the agents"):
            data = {name: base64.b64encode(content).decode() for name, content in keys.items()}
            secret = {"metadata": self._named(self._mark), "type": "Opaque", "data": data}
            self._core.create_namespaced_secret(self._driver.namespace, secret, _request_timeout=CALL_LIMIT_S)
            for slot in sorted({place.slot for place in places.values()}):
                nodes = sorted(place.node for place in places.values() if place.slot == slot)
                self._apps.create_namespaced_daemon_set(
                    self._driver.namespace, self.daemon_set(slot, nodes), _request_timeout=CALL_LIMIT_S
                )

    def daemon_set(self, slot: int, nodes: Sequence[str]) -> dict[str, Any]:
        """Return the DaemonSet that runs the agents of one slot, on these nodes only."""
        labels = {MARK: self._mark, SLOT: str(slot)}
        files = {name: f"{KEYS_FOLDER}/{name}" for name in ("ca.pem", "host.pem", "host.key")}
        serve = ["gavotte-agent", "serve", "--tls", f"0.0.0.0:{CONTROL_PORT}", "--data-port", str(DATA_PORT)]
        serve += ["--ca", files["ca.pem"], "--cert", files["host.pem"], "--key", files["host.key"]]
        one_of = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
        spec = {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            # An agent looks up no names.
            "dnsPolicy": "Default",
            "hostNetwork": self._driver.host_network,
            "nodeSelector": self._driver.node_selector,
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": one_of}}
            },
            # The key is readable by the image's user, even if that is not root, and by no other user.
            "securityContext": {"fsGroup": 65534},
            "containers": [
                {
                    "name": CONTAINER,
                    "image": self._driver.image,
                    "command": serve,
                    "ports": [
                        {"name": "control", "containerPort": CONTROL_PORT},
                        {"name": "data", "containerPort": DATA_PORT},
                    ],
                    "readinessProbe": {"tcpSocket": {"port": CONTROL_PORT}, "periodSeconds": 1, "failureThreshold": 1},
                    "volumeMounts": [{"name": "keys", "mountPath": KEYS_FOLDER, "readOnly": True}],
                }
            ],
            "volumes": [{"name": "keys", "secret": {"secretName": self._mark, "defaultMode": 0o440}}],
        }
        return {
            "metadata": self._named(f"{self._mark}-{slot}", labels),
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels | MANAGED}, "spec": spec},
            },
        }

    def ready(self, places: Mapping[str, Place]) -> dict[str, Pod]:
        """Wait until every endpoint's pod is ready, and return the pods by endpoint.

        Raises:
            GavotteError: when a pod cannot become ready, or is not after `driver.wait_s`. The message gives its reason.
        """
        end = time.monotonic() + self._driver.wait_s
        before = ""
        while True:
            with api_errors("tell of the agents"):
                pods = {Place(pod.spec.node_name or "", int(pod.metadata.labels[SLOT])): pod for pod in self._pods()}
            ready, waiting = {}, {}
            for name, place in places.items():
                pod = pods.get(place)
                if pod is not None and is_ready(pod):
                    ready[name] = Pod(pod.metadata.name, pod.status.pod_ip, place.node)
                else:
                    waiting[name] = complaint(pod)
            if not waiting:
                return ready
            name, (reason, why) = next(iter(waiting.items()))
            line = f"{len(ready)} of {len(places)} agents are ready; {name} on {places[name].node}: {why}"
            if line != before:
                self.report(line)
                before = line
            hopeless = next((each for each, (code, _) in waiting.items() if code in HOPELESS), None)
            late = time.monotonic() + POLL_S > end
            if hopeless is not None or late:
                name = hopeless or name
                reason, why = waiting[name]
                pod = pods.get(places[name])
                more = self._more(pod.metadata.name, crashed=reason == "CrashLoopBackOff") if pod is not None else ""
                after = "" if hopeless else f" after {self._driver.wait_s:g} s"
                raise GavotteError(
                    f"the agent of {name} on node {places[name].node} is not ready{after}: {why}{more}",
                    hint="fix the image or the node, or give it more time by driver.wait_s",
                )
            time.sleep(POLL_S)

    def places(self, names: Sequence[str]) -> dict[str, Place]:
        """Choose a node for each endpoint: the node of its name, or one with the labels that the campaign asks for.

        Two endpoints share a node only if the campaign says so. The same nodes always give the same choice.

        Raises:
            GavotteError: when no node is left for an endpoint.
        """
        with api_errors("list its nodes"):
            selector = ",".join(f"{key}={value}" for key, value in sorted(self._driver.node_selector.items()))
            nodes = self._core.list_node(label_selector=selector, _request_timeout=CALL_LIMIT_S).items
        labels = {node.metadata.name: node.metadata.labels or {} for node in nodes if _takes_pods(node)}
        return placed(names, self._driver, labels)

    def delete(self) -> None:
        """Delete all objects of the campaign, and wait for its pods to end, at most `GONE_LIMIT_S`."""
        with api_errors("delete the agents"):
            options: dict[str, Any] = {**self._mine, "_request_timeout": CALL_LIMIT_S}
            self._apps.delete_collection_namespaced_daemon_set(propagation_policy="Background", **options)
            self._core.delete_collection_namespaced_secret(**options)
            end = time.monotonic() + GONE_LIMIT_S
            while (left := self._pods()) and time.monotonic() < end:
                time.sleep(POLL_S)
            for pod in left:
                self.report(f"pod {pod.metadata.name} does not end; delete it by hand")

    def _pods(self) -> list[Any]:
        pods: list[Any] = self._core.list_namespaced_pod(**self._mine, _request_timeout=CALL_LIMIT_S).items
        return pods

    def _more(self, pod: str, *, crashed: bool) -> str:
        """Return the last line of a pod's log, or the cluster's last warning about the pod, to append to a message."""
        from kubernetes.client import ApiException

        namespace, limit = self._driver.namespace, {"_request_timeout": CALL_LIMIT_S}
        with suppress(ApiException):
            text = self._core.read_namespaced_pod_log(pod, namespace, tail_lines=1, previous=crashed, **limit)
            if text:
                return f"; it said: {one_line(text)}"
        if crashed:
            return ""
        with suppress(ApiException):
            about = f"involvedObject.name={pod},type=Warning"
            events = self._core.list_namespaced_event(namespace, field_selector=about, **limit).items
            if events:
                return f"; {one_line(events[-1].reason, events[-1].message)}"
        return ""

    def _named(self, name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        return {"name": name, "labels": {MARK: self._mark, **MANAGED, **(labels or {})}}


MANAGED = {"app.kubernetes.io/managed-by": "gavotte"}


def placed(names: Sequence[str], driver: Driver, labels: Mapping[str, Mapping[str, str]]) -> dict[str, Place]:
    """Choose a node for every endpoint among the given nodes; see `Cluster.places`.

    Args:
        names: the endpoints.
        driver: the driver, whose hints say which nodes an endpoint may use.
        labels: node to its labels, for nodes that accept pods.

    Raises:
        GavotteError: when an endpoint gets no node. The message names it.
    """
    hints = {each.name: each for each in driver.node}
    alone = [name for name in names if name not in hints or hints[name].same_node_as is None]
    nodes = sorted(labels)
    fits = np.zeros((len(alone), len(nodes)), dtype=np.int8)
    for row, name in enumerate(alone):
        for column, node in enumerate(nodes):
            wanted = hints[name].labels if name in hints else None
            fits[row, column] = node == name.lower() if wanted is None else wanted.items() <= labels[node].items()
        if not fits[row].any():
            raise GavotteError(
                f"no node that takes pods {'is called' if name not in hints else 'has the labels of'} `{name}`",
                hint=f"the cluster has {', '.join(nodes[:10]) or 'none'}; name one of them, or add a [[driver.node]]",
            )
    with needs("kubernetes"):
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching
    chosen = maximum_bipartite_matching(csr_array(fits), perm_type="column") if alone else []
    where = {name: nodes[at] for name, at in zip(alone, chosen, strict=True) if at >= 0}
    lacking = [name for name in alone if name not in where]
    if lacking:
        raise GavotteError(
            f"too few nodes: none is left for `{lacking[0]}`",
            hint="loosen the labels of [[driver.node]], or let endpoints share one by same_node_as",
        )
    for name in names:
        seen = [name]
        while name not in where and (other := hints[seen[-1]].same_node_as) is not None:
            if other in seen or (other not in hints and other not in where):
                why = "a circle" if other in seen else "no endpoint"
                raise GavotteError(
                    f"`{name}` is to share a node with `{other}`, which is {why}", hint="change same_node_as"
                )
            if other in where:
                where[name] = where[other]
            seen.append(other)
    used: Counter[str] = Counter()
    place_of = {}
    for name in names:
        place_of[name] = Place(where[name], used[where[name]])
        used[where[name]] += 1
    return place_of


def is_ready(pod: Any) -> bool:
    """Return whether a pod runs, is ready and is not being deleted."""
    if pod.metadata.deletion_timestamp is not None or pod.status.phase != "Running" or not pod.status.pod_ip:
        return False
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or [])


def complaint(pod: Any) -> tuple[str, str]:
    """Return why a pod is not ready: Kubernetes' reason code, empty if it gives none, and a line of explanation."""
    if pod is None:
        return "", "has no pod yet"
    for each in pod.status.container_statuses or []:
        if each.state.waiting is not None:
            waiting = each.state.waiting
            ended = each.last_state.terminated if each.last_state is not None else None
            if ended is not None:
                how = one_line(f"ended with {ended.exit_code}", ended.reason, ended.message)
                return waiting.reason or "", one_line(waiting.reason, f"it {how}")
            return waiting.reason or "", one_line(waiting.reason, waiting.message)
        if each.state.terminated is not None:
            ended = each.state.terminated
            return ended.reason or "", one_line(f"ended with {ended.exit_code}", ended.message or ended.reason)
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason or "", one_line(condition.reason, condition.message)
    return "", one_line(pod.status.reason or f"is {pod.status.phase}, not ready", pod.status.message)


def _takes_pods(node: Any) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or [])
    return ready and not node.spec.unschedulable


def mark_of(campaign: Campaign) -> str:
    """Return the value of a campaign's label: its name in the characters that labels allow, and a hash of the name.

    A label's value has at most 63 characters.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", campaign.name.lower()).strip("-")[:32].strip("-")
    return "-".join(filter(None, ("gavotte", slug, hashlib.sha256(campaign.name.encode()).hexdigest()[:8])))
