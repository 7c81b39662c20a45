"""The cluster of SSH servers that several tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.cluster import Cluster, cluster, lacking


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Iterator[Cluster]:
    """Hosts a, b, c, d with SSH servers, and one called boss where the controller runs."""
    if lacking():
        pytest.skip(lacking())
    with cluster(tmp_path_factory.mktemp("ssh")) as made:
        if made.cloud.status().rootless:
            pytest.skip("an SSH server needs root")
        yield made
