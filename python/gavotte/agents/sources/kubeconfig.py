"""Nodes of the Kubernetes cluster that a kubeconfig names, as its API server lists them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gavotte.agents.kubeconfig import api_errors, connected, kubeconfig_files
from gavotte.errors import FormatError, GavotteError

if TYPE_CHECKING:
    from gavotte.agents.sources.listings import Listing

DEADLINE_S = 10.0
"""Longest wait for one answer of the API server, in seconds."""

PAGE = 500
"""Nodes that are listed at a time."""


def from_kubeconfig(context: str = "", *, match: str = "*", user: str | None = None, public: bool = False) -> Listing:
    """List the nodes of a cluster. Nodes that are not ready, or take no pods, are absent.

    Args:
        context: a context of the kubeconfig; empty = its current one, or the cluster of this process's pod.
        match: patterns of names with commas between them; others are left out.
        user: login name.
        public: connect to agents at public addresses.

    Raises:
        UnsupportedError: when the client library is not installed.
        GavotteError: when there is no such cluster, it does not answer, or it refuses to list its nodes.
    """
    from gavotte.agents.sources.listings.kubernetes import of_kubernetes
    from gavotte.agents.sources.listings.reading import of_machines

    source = f"kubeconfig:{context}" if context else "kubeconfig"
    if context and not any(map(os.path.exists, kubeconfig_files())):
        where = os.pathsep.join(kubeconfig_files())
        raise GavotteError(f"no kubeconfig is at {where}", hint="set KUBECONFIG, or name another context")
    nodes = _nodes(connected(context, retries=0))
    if not nodes:
        raise FormatError(source, "", "the cluster has no nodes", "name another context")
    machines = {each.ident: each for each in of_kubernetes({"items": nodes}, source)}
    return of_machines(machines, source, match=match, user=user, public=public)


def _nodes(api: Any) -> list[Any]:
    """Return all nodes, as `kubectl get nodes -o json` prints them."""
    from kubernetes import client

    core: Any = client.CoreV1Api(api)
    nodes: list[Any] = []
    token = None
    with api_errors("list its nodes", "nodes: list"):
        while True:
            page = core.list_node(limit=PAGE, _continue=token, _request_timeout=DEADLINE_S)
            nodes += api.sanitize_for_serialization(page.items)
            token = page.metadata._continue
            if not token:
                return nodes
