"""Keep the labels of a cluster's nodes as the Network says where the nodes are.

Labels are those of Topograph 1.0, or its older ones. An annotation of each node names those that this service has set.
So it changes no label that others have set, and knows its own after a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gavotte.agents.kubeconfig import CALL_LIMIT_S, DAMAGED, api_errors
from gavotte.errors import GavotteError
from gavotte.export.labels import CURRENT, LABEL_VALUE, Keys, labels_of
from gavotte.formats.network import Network
from gavotte.formats.parts.counting import counted

MARK = "gavotte.io/labels"
"""Annotation with the keys of the labels that this service has set."""

LOOK_S = 2.0
"""Time between two looks at the Network's file, in seconds."""

EVERY_S = 60.0
"""Time after which all nodes are looked at again, since nodes join and people change labels, in seconds."""

PAGE = 500
"""Nodes that are listed at a time."""

RIGHTS = "nodes: get, list, patch"
"""What the account of this service may do."""


class NodeLabels:
    """The labels of all nodes of a cluster.

    Args:
        api: a client of the cluster.
        network: returns the newest Network.
        note: called with a line about what has changed.
        complain: called with a warning.
        keys: names of the labels.
    """

    def __init__(
        self,
        api: Any,
        network: Callable[[], Network],
        note: Callable[[str], None],
        complain: Callable[[str], None],
        *,
        keys: Keys = CURRENT,
    ) -> None:
        from kubernetes import client

        self._keys = keys
        self._core: Any = client.CoreV1Api(api)
        self._network = network
        self._note = note
        self._complain = complain
        self._warned: set[str] = set()

    def reconcile(self) -> int:
        """Set labels that are missing or wrong, and remove those that no longer hold; return how many nodes changed.

        Raises:
            GavotteError: when the cluster does not answer or refuses, or the Network's groups form no tree.
        """
        wanted = labels_of(self._network(), self._keys, LABEL_VALUE)
        count, seen = 0, set()
        with api_errors("label nodes", RIGHTS):
            for node in _nodes(self._core):
                seen.add(node.metadata.name)
                count += self._reconcile_one(node.metadata, wanted.get(node.metadata.name, {}))
        if missing := sorted(set(wanted) - seen):
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            self._warn_once(f"{missing[0]}{others} of the Network: no node has that name")
        return count

    def keep(self, stop: threading.Event) -> None:
        """Reconcile at once, whenever the Network changes, and every `EVERY_S`, until `stop` is set."""
        known: Network | None = None
        due_s, failures = 0.0, 0
        while not stop.is_set():
            network = self._network()
            if network is not known or time.monotonic() >= due_s:
                try:
                    count = self.reconcile()
                except (GavotteError, *DAMAGED) as error:
                    if not failures:
                        reason = error if isinstance(error, GavotteError) else "Kubernetes sent a damaged list of nodes"
                        self._complain(f"{reason}; trying again until it does")
                    failures += 1
                    known, due_s = network, time.monotonic() + min(2.0**failures, EVERY_S)
                else:
                    if failures:
                        self._note("Kubernetes labels nodes again")
                    if count:
                        self._note(f"{counted(count, 'node')} got other labels")
                    failures = 0
                    known, due_s = network, time.monotonic() + EVERY_S
            stop.wait(LOOK_S)

    def _reconcile_one(self, node: Any, wanted: Mapping[str, str]) -> bool:
        """Change a node's labels if they are not as wanted; return whether they changed."""
        present, before = node.labels or {}, (node.annotations or {}).get(MARK, "")
        own = set(filter(None, before.split(",")))
        claimed = {key: value for key, value in wanted.items() if key in own or key not in present}
        for key in sorted(set(wanted) - set(claimed)):
            if present[key] != wanted[key]:
                self._warn_once(
                    f"node {node.name} has {key}={present[key]}, which others have set, instead of {wanted[key]}"
                )
        changes: dict[str, str | None] = {key: None for key in own - set(claimed) if key in present}
        changes |= {key: value for key, value in claimed.items() if present.get(key) != value}
        mark = ",".join(sorted(claimed))
        if not changes and mark == before:
            return False
        body = {"metadata": {"labels": changes, "annotations": {MARK: mark or None}}}
        self._core.patch_node(node.name, body, _request_timeout=CALL_LIMIT_S)
        return bool(changes)

    def _warn_once(self, text: str) -> None:
        """Give a warning once."""
        if text not in self._warned:
            self._warned.add(text)
            self._complain(text)


def remove_labels(api: Any) -> int:
    """Remove all labels that this service has set in a cluster, of any tier; return the number of nodes that had some.

    Args:
        api: a client of the cluster.

    Raises:
        GavotteError: when the cluster does not answer or refuses.
    """
    from kubernetes import client

    core: Any = client.CoreV1Api(api)
    count = 0
    with api_errors("remove labels of nodes", RIGHTS):
        for node in _nodes(core):
            mark = (node.metadata.annotations or {}).get(MARK)
            if mark is None:
                continue
            changes = dict.fromkeys(set(filter(None, mark.split(","))) & set(node.metadata.labels or {}))
            body = {"metadata": {"labels": changes, "annotations": {MARK: None}}}
            core.patch_node(node.metadata.name, body, _request_timeout=CALL_LIMIT_S)
            count += 1
    return count


def _nodes(core: Any) -> Iterator[Any]:
    token = None
    while True:
        page = core.list_node(limit=PAGE, _continue=token, _request_timeout=CALL_LIMIT_S)
        yield from page.items
        token = page.metadata._continue
        if not token:
            return
