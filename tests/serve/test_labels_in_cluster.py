"""Labels of a real cluster's nodes follow the Network: `make test-kubernetes`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.serve.served import serving
from tests.shell import until

from gavotte.formats.network import write_network

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.timeout(300),
]
TIER = "fabric.topograph.run/tier-0"
RACKS = [{"name": "one", "members": ["node1"]}, {"name": "two", "members": ["node2"]}]


def test_labels_of_nodes_follow_the_network(tmp_path: Path) -> None:
    from kubernetes import client

    from gavotte.campaign.drivers import cluster

    core: Any = client.CoreV1Api(cluster.connected(""))

    def labels() -> dict[str, str | None]:
        nodes = core.list_node().items
        return {node.metadata.name: (node.metadata.labels or {}).get(TIER) for node in nodes}

    both = builders.network(["node1", "node2"], 1e9, groups=RACKS)
    with serving(tmp_path, "--label-nodes", network=both) as served:
        until(lambda: labels() == {"node1": "one", "node2": "two"}, instead=labels)
        write_network(tmp_path / "n.network.json", builders.network(["node1", "other"], 1e9, groups=[RACKS[0]]))
        until(lambda: labels() == {"node1": "one", "node2": None}, instead=labels)
    assert "Traceback" not in served.complaints
    with serving(tmp_path, "--label-nodes", network=both):
        until(lambda: labels() == {"node1": "one", "node2": "two"}, instead=labels)
    for name in ("node1", "node2"):
        core.patch_node(name, {"metadata": {"labels": {TIER: None}, "annotations": {"gavotte.io/labels": None}}})
