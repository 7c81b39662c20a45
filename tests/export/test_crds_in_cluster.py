"""A real API server with the projects' own definitions accepts what is exported: `make test-kubernetes`.

Only the API server and the definitions run here, not the projects' controllers and webhooks.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import builders
from tests.export.cluster import Cluster, defined
from tests.export.test_diktyo import RACKS, labelled
from tests.export.test_jobs import placed
from tests.export.test_topologies import PODS, groups

from gavotte.export import JOB_FORMATS, TOPOLOGY_FORMATS, JobQuestion, export_job, export_network
from gavotte.export.diktyo import MOST_BYTES

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


REGIONS = labelled(("north", "n1"), ("north", "n2"), ("south", "s1"), latency_s=1e-4, rate_bps=1e9)
LARGE = labelled(*(("", f"zone-{number}") for number in range(98)), latency_s=1e-4, rate_bps=1e9)
"""As many zones as fit into an object."""
SORT = builders.app(
    "sort",
    ("a", "b", 1_000_000),
    ("b", "c", 2_000_000),
    constraints={"max_latency": [{"source": "a", "target": "b", "seconds": 2e-4}]},
)


@pytest.mark.parametrize("network", [RACKS, REGIONS, LARGE], ids=["racks", "regions", "large"])
def test_costs_of_diktyo_are_accepted_and_kept(cluster: Cluster, network: Any) -> None:
    text = export_network(network, "diktyo")
    document = yaml.safe_load(text)
    assert cluster.create(document)["spec"] == document["spec"]
    if network is LARGE:
        assert len(text) > 0.9 * MOST_BYTES


def test_costs_that_diktyo_does_not_allow_are_refused(cluster: Cluster) -> None:
    document = yaml.safe_load(export_network(RACKS, "diktyo"))
    cost = document["spec"]["weights"][0]["topologyList"][0]["originList"][0]["costList"][0]
    for wrong, message in (
        ({"networkCost": -1}, "should be greater than or equal to 0"),
        ({"networkCost": 1.5}, "must be of type integer"),
        ({"bandwidthCapacity": "1 Gbit/s"}, "should match"),
        ({"latency": 1}, "unknown field"),
    ):
        before = dict(cost)
        cost.update(wrong)
        assert message in cluster.refusal(document)
        cost.clear()
        cost.update(before)
    del document["spec"]["configmapName"]
    assert "Required value" in cluster.refusal(document)


@pytest.mark.parametrize("seconds", [None, 0.001])
def test_groups_of_tasks_are_accepted_and_kept(cluster: Cluster, seconds: float | None) -> None:
    document = yaml.safe_load(export_job(JobQuestion(SORT, seconds=seconds), "diktyo-appgroup"))
    assert cluster.create(document)["spec"] == document["spec"]


def test_groups_of_tasks_that_diktyo_does_not_allow_are_refused(cluster: Cluster) -> None:
    document = yaml.safe_load(export_job(JobQuestion(SORT), "diktyo-appgroup"))
    dependency = document["spec"]["workloads"][1]["dependencies"][0]
    dependency["maxNetworkCost"] = 10_001
    assert "should be less than or equal to 10000" in cluster.refusal(document)
    dependency["maxNetworkCost"] = 10_000
    dependency["workload"].pop("selector")
    assert "Required value" in cluster.refusal(document)


SUSPENDED = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "sort"},
    "spec": {
        "suspend": True,
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "gavotte.test/pause:1"}]}
        },
    },
}
"""A Job as Kueue starts it: without pods."""


def volcano_job(network_topology: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "sort"},
        "spec": {"minAvailable": 2} | ({"networkTopology": network_topology} if network_topology else {}),
    }


@pytest.mark.parametrize("together", ["required", "preferred"])
def test_the_stanza_of_a_volcano_job_is_accepted_and_kept(cluster: Cluster, together: Any) -> None:
    stanza = yaml.safe_load(export_job(JobQuestion(placed("ac"), PODS, together), "volcano-job"))["spec"]
    job = volcano_job(stanza["networkTopology"])
    assert cluster.create(job)["spec"]["networkTopology"] == stanza["networkTopology"]


def test_stanzas_that_volcano_does_not_allow_are_refused(cluster: Cluster) -> None:
    """A tier by number and by name at once is refused by Volcano's webhook alone, which does not run here."""
    assert "Unsupported value" in cluster.refusal(volcano_job({"mode": "required"}))
    assert "should be greater than or equal to 0" in cluster.refusal(volcano_job({"highestTierAllowed": -1}))
    assert cluster.create(volcano_job({"highestTierAllowed": 1, "highestTierName": "rack"}))


NODES = builders.network(
    ["node1", "node2"],
    1e9,
    1e-4,
    groups=[{"name": "one", "members": ["node1"]}, {"name": "two", "members": ["node2"]}],
)
"""The cluster's nodes, in racks of their own."""


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_zones_are_set_and_removed_but_not_replaced(cluster: Cluster, tmp_path: Path) -> None:
    known = TOPOLOGY_FORMATS["diktyo-zones"]
    (tmp_path / "FILE").write_text(export_network(NODES, "diktyo-zones"))
    use, undo = known.usage.format(file="FILE"), known.undo.format(file="FILE")

    def zones() -> list[str]:
        column = r"jsonpath={.items[*].metadata.labels.topology\.kubernetes\.io/zone}"
        return shell(f"kubectl get nodes -o '{column}'", tmp_path).split()

    before = zones()
    assert len(before) == 2
    ran = subprocess.run(["sh", "-c", use], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "'topology.kubernetes.io/zone' already has a value (zone1), and --overwrite is false" in ran.stderr
    assert zones() == before
    try:
        shell(undo, tmp_path)
        shell(use, tmp_path)
        assert zones() == ["one", "two"]
        shell(undo, tmp_path)
        assert zones() == []
    finally:
        for number, zone in enumerate(before, start=1):
            shell(f"kubectl label --overwrite node node{number} topology.kubernetes.io/zone={zone}", tmp_path)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_the_lines_for_use_and_undo_work_as_printed(cluster: Cluster, tmp_path: Path) -> None:
    jobs = {"diktyo-appgroup": JobQuestion(SORT)} | {
        form: JobQuestion(placed("ac"), PODS) for form in ("kueue-job", "volcano-job")
    }
    for form, kind in {
        "kueue": "topologies.kueue.x-k8s.io",
        "kueue-job": "jobs.batch",
        "volcano": "hypernodes.topology.volcano.sh",
        "volcano-job": "jobs.batch.volcano.sh",
        "diktyo": "networktopologies.networktopology.diktyo.x-k8s.io",
        "diktyo-appgroup": "appgroups.appgroup.diktyo.x-k8s.io",
    }.items():
        known = JOB_FORMATS[form] if form in jobs else TOPOLOGY_FORMATS[form]
        text = export_job(jobs[form], form) if form in jobs else export_network(NODES, form)
        (tmp_path / "FILE").write_text(text)
        (tmp_path / "job.yaml").write_text(json.dumps(volcano_job() if form == "volcano-job" else SUSPENDED))
        line = known.usage.format(file="FILE", name="sort").partition(", with ")[0].partition("; label ")[0]
        shell(line, tmp_path)
        kept = shell(f"kubectl get {kind} -o yaml", tmp_path)
        assert yaml.safe_load(kept)["items"], form
        shell(known.undo.format(file="FILE"), tmp_path)
        if form.endswith("-job"):
            assert "opology" in kept
            assert "opology" not in shell(f"kubectl get {kind} -o yaml", tmp_path)
            shell("kubectl delete -f job.yaml", tmp_path)
        assert not shell(f"kubectl get {kind} -o name", tmp_path)


def shell(line: str, folder: Path) -> str:
    """Run a line and return what it prints on stdout."""
    ran = subprocess.run(["sh", "-ec", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
