"""A real API server with the projects' own definitions accepts what is exported: `make test-kubernetes`.

Only the API server and the definitions run here, not the projects' controllers and webhooks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests import builders
from tests.export.cluster import Cluster, defined
from tests.export.test_topologies import PODS, groups

from gavotte.export import export_network

pytestmark = [
    pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes"),
    pytest.mark.timeout(300),
]
DEEPEST = builders.network("ab", groups=groups(None, *(f"g{number}" for number in range(13))))
"""As many tiers as Kueue's Topology can have levels."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with defined() as cluster:
        yield cluster


@pytest.mark.parametrize("form", ["kueue", "volcano"])
@pytest.mark.parametrize("network", [PODS, DEEPEST, builders.network("ab")], ids=["pods", "deepest", "flat"])
def test_exported_objects_are_accepted_and_kept(cluster: Cluster, form: str, network: Any) -> None:
    documents = list(yaml.safe_load_all(export_network(network, form)))
    for document in documents:
        assert cluster.create(document)["spec"] == document["spec"]
    if form == "kueue" and network is DEEPEST:
        assert len(documents[0]["spec"]["levels"]) == 16


def test_the_older_labels_are_levels_too(cluster: Cluster) -> None:
    document = yaml.safe_load(export_network(PODS, "kueue", older_labels=True))
    assert cluster.create(document)["spec"] == document["spec"]


def test_levels_that_kueue_does_not_allow_are_refused(cluster: Cluster) -> None:
    document = yaml.safe_load(export_network(PODS, "kueue"))
    levels = document["spec"]["levels"]
    for wrong, message in (
        (levels[::-1], "the kubernetes.io/hostname label can only be used at the lowest level of topology"),
        ([levels[0], *levels], "must be unique"),
        ([], "should have at least 1 items"),
        ([{"nodeLabel": f"x/{number}"} for number in range(17)], "must have at most 16 items"),
        ([{"nodeLabel": "no label"}], "should match"),
        ([{"label": "x/y"}], "unknown field"),
    ):
        document["spec"]["levels"] = wrong
        assert message in cluster.refusal(document)


def test_members_that_volcano_does_not_allow_are_refused(cluster: Cluster) -> None:
    document = next(yaml.safe_load_all(export_network(PODS, "volcano")))
    selector = document["spec"]["members"][0]["selector"]
    for wrong, message in (
        ({}, "Either ExactMatch or RegexMatch or LabelMatch must be specified"),
        (selector | {"regexMatch": {"pattern": ".*"}}, "Only one of ExactMatch, RegexMatch, or LabelMatch can be"),
        ({"exactMatch": {"name": "Rack"}}, "should match"),
    ):
        document["spec"]["members"][0]["selector"] = wrong
        assert message in cluster.refusal(document)
    document["spec"]["members"] = []
    assert "should have at least 1 items" in cluster.refusal(document)
