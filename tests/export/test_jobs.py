"""What a job asks of Kueue and Volcano: the lowest tier of which one switch has room for it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.export.test_topologies import PODS, networks
from typer.testing import CliRunner

from gavotte.cli.verbs import app as gavotte
from gavotte.errors import GavotteError
from gavotte.export import JOB_FORMATS, JobQuestion, Together, export_job, export_network
from gavotte.export.manifests import OBJECT_NAME
from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network, write_network
from gavotte.formats.placement import Placement, write_placement

TIER = "fabric.topograph.run/tier-"
HOSTNAME = "kubernetes.io/hostname"
ANNOTATION = "kueue.x-k8s.io/podset-{}-topology"


def placed(hosts: str) -> Placement:
    return builders.placement({f"t{rank}": host for rank, host in enumerate(hosts)}, "sort")


def tasks(*cores: float, **fields: Any) -> App:
    named = [{"name": f"t{number}", "cpus": cpus} | fields for number, cpus in enumerate(cores)]
    return builders.app("sort", tasks=named)


def asked_of_kueue(source: App | Placement, network: Network = PODS, **options: Any) -> dict[str, str]:
    patch = yaml.safe_load(export_job(JobQuestion(source, network, **options), "kueue-job"))
    result: dict[str, str] = patch["spec"]["template"]["metadata"]["annotations"]
    return result


def asked_of_volcano(
    source: App | Placement, network: Network = PODS, together: Together = "required"
) -> dict[str, Any]:
    patch = yaml.safe_load(export_job(JobQuestion(source, network, together), "volcano-job"))
    result: dict[str, Any] = patch["spec"]["networkTopology"]
    return result


@pytest.mark.parametrize(
    ("source", "level", "tier"),
    [
        (placed("aa"), HOSTNAME, 1),
        (placed("ab"), f"{TIER}0", 1),
        (placed("ac"), f"{TIER}1", 2),
        (placed("ea"), f"{TIER}2", 3),
        (tasks(0.5, 0.5), HOSTNAME, 1),
        (tasks(1, 1), f"{TIER}0", 1),
        (tasks(0.6, 0.6, 0.6), f"{TIER}1", 2),
        (tasks(*[1] * 4), f"{TIER}1", 2),
        (tasks(*[1] * 5), f"{TIER}2", 3),
    ],
)
def test_a_job_gets_the_lowest_tier_with_room(source: App | Placement, level: str, tier: int) -> None:
    assert asked_of_kueue(source) == {ANNOTATION.format("required"): level}
    assert asked_of_kueue(source, together="preferred") == {ANNOTATION.format("preferred"): level}
    assert asked_of_kueue(source, together="unconstrained") == {ANNOTATION.format("unconstrained"): "true"}
    assert asked_of_volcano(source) == {"mode": "hard", "highestTierAllowed": tier}
    assert asked_of_volcano(source, together="preferred") == {"mode": "soft"}


def test_memory_and_resources_count_too() -> None:
    hosts = [{"name": name, "cpus": 8, "memory_bytes": 100, "resources": {"gpu": 2}} for name in "ab"]
    pair = builders.network([*hosts, {"name": "c", "cpus": 8}], groups=[{"name": "rack", "members": ["a", "b"]}])
    assert asked_of_kueue(tasks(1, 1, memory_bytes=60), pair) == {ANNOTATION.format("required"): HOSTNAME}, (
        "c's is unknown"
    )
    assert asked_of_kueue(tasks(1, 1, resources={"gpu": 1}), pair) == {ANNOTATION.format("required"): HOSTNAME}
    assert asked_of_kueue(tasks(1, 1, resources={"gpu": 2}), pair) == {ANNOTATION.format("required"): f"{TIER}0"}
    with pytest.raises(GavotteError, match="task: 3 tasks with 3 cores do not fit on the 3 hosts with 24 cores"):
        asked_of_kueue(tasks(1, 1, 1, resources={"gpu": 2}), pair)


def test_many_tasks_are_packed_at_once() -> None:
    large = builders.network([{"name": f"vm{number}", "cpus": 8} for number in range(500)])
    assert asked_of_volcano(tasks(*[1] * 4000), large) == {"mode": "hard", "highestTierAllowed": 1}
    with pytest.raises(GavotteError, match="do not fit on the 500 hosts with 4000 cores"):
        asked_of_volcano(tasks(*[5] * 501, *[1] * 400), large)


@given(networks(), st.data())
def test_the_tier_is_that_of_a_hypernode_around_the_hosts(network: Network, data: st.DataObject) -> None:
    used = data.draw(st.lists(st.sampled_from(network.names), min_size=1))
    source = builders.placement({f"t{rank}": host for rank, host in enumerate(used)}, "sort")
    nodes: dict[str, set[str]] = {}
    tier_of: dict[str, int] = {}
    for document in reversed(list(yaml.safe_load_all(export_network(network, "volcano")))):
        members = [member["selector"]["exactMatch"]["name"] for member in document["spec"]["members"]]
        inner = document["spec"]["members"][0]["type"] == "HyperNode"
        name = document["metadata"]["name"]
        nodes[name] = set().union(*(nodes[member] for member in members)) if inner else set(members)
        tier_of[name] = document["spec"]["tier"]
    lowest = min(tier_of[name] for name, inside in nodes.items() if inside.issuperset(used))
    assert asked_of_volcano(source, network)["highestTierAllowed"] == lowest
    (level,) = asked_of_kueue(source, network).values()
    assert level == (HOSTNAME if len(set(used)) == 1 else f"{TIER}{lowest - 1}")


@pytest.mark.parametrize(
    ("source", "level", "size"),
    [(placed("aa"), HOSTNAME, 2), (placed("ac"), f"{TIER}1", 2), (tasks(*[1] * 5), f"{TIER}2", 5)],
)
def test_a_pod_group_starts_whole_below_the_lowest_tier(source: App | Placement, level: str, size: int) -> None:
    group = yaml.safe_load(export_job(JobQuestion(source, PODS), "kubernetes-podgroup"))
    policy = {"schedulingPolicy": {"gang": {"minCount": size}}}
    assert group["metadata"]["name"] == "sort"
    assert group["spec"] == policy | {"schedulingConstraints": {"topology": [{"key": level}]}}
    free = yaml.safe_load(export_job(JobQuestion(source, PODS, "unconstrained"), "kubernetes-podgroup"))
    assert free["spec"] == policy


def test_the_pods_know_their_group_by_a_name_that_kubernetes_allows(tmp_path: Path) -> None:
    network, job = tmp_path / "n.network.json", tmp_path / "j.app.toml"
    write_network(network, PODS)
    write_app(job, builders.app("My_Job", tasks=["x", "y"]))
    words = ["export", job, "--network", network, "--format", "kubernetes-podgroup", "--json"]
    printed = json.loads(CliRunner().invoke(gavotte, list(map(str, words))).stdout)
    name = yaml.safe_load(printed["content"])["metadata"]["name"]
    assert OBJECT_NAME.fullmatch(name)
    assert f"schedulingGroup: {{podGroupName: {name}}}" in printed["usage"]


@pytest.mark.parametrize("older_labels", [False, True])
@pytest.mark.parametrize("together", ["required", "preferred", "unconstrained"])
def test_kueues_webhook_would_accept_the_annotations(together: Together, older_labels: bool) -> None:
    """Its rules are in no definition: one annotation, whose value is a label's name or a boolean."""
    ((key, value),) = asked_of_kueue(placed("ac"), together=together, older_labels=older_labels).items()
    assert key == ANNOTATION.format(together)
    if together == "unconstrained":
        assert value in {"true", "false"}
    else:
        assert re.fullmatch(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", value)
        levels = yaml.safe_load(export_network(PODS, "kueue", older_labels=older_labels))["spec"]["levels"]
        assert {"nodeLabel": value} in levels


def test_volcanos_webhook_would_accept_the_stanza() -> None:
    """Its rule is in no definition: a tier by number or by name, not both."""
    assert "highestTierName" not in asked_of_volcano(placed("ac"))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_kubectl_patches_a_job_as_the_usage_says(tmp_path: Path) -> None:
    jobs: dict[str, dict[str, Any]] = {
        "kueue-job": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {"template": {"metadata": {"labels": {"x": "y"}}}},
        },
        "volcano-job": {"apiVersion": "batch.volcano.sh/v1alpha1", "spec": {"minAvailable": 2}},
    }
    for form, job in jobs.items():
        (tmp_path / "job.yaml").write_text(json.dumps(job | {"kind": "Job", "metadata": {"name": "j"}}))
        (tmp_path / "patch").write_text(export_job(JobQuestion(placed("ac"), PODS), form))
        line = JOB_FORMATS[form].usage.format(file="patch", name="j").split(" | ")[0]
        done = subprocess.run(line.split(), cwd=tmp_path, capture_output=True, text=True, check=True)
        spec = yaml.safe_load(done.stdout)["spec"]
        if form == "kueue-job":
            metadata = spec["template"]["metadata"]
            assert metadata == {"labels": {"x": "y"}, "annotations": {ANNOTATION.format("required"): f"{TIER}1"}}
        else:
            assert spec == {"minAvailable": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 2}}


def test_jobs_that_cannot_be_expressed_are_one_line(tmp_path: Path) -> None:
    network, job, placement = tmp_path / "n.network.json", tmp_path / "j.app.toml", tmp_path / "p.placement.json"
    write_network(network, PODS)
    write_app(job, builders.app("j", tasks=["x", "y"], constraints={"apart": [["x", "y"]]}))
    write_placement(placement, placed("az"))
    at = ["--network", network]
    for words, message in [
        ([job, "--format", "kueue-job"], "kueue-job needs the tiers of a Network; give it by --network"),
        ([job, "--format", "kueue-job", *at], f"{job}: constraints.apart: the size of a job does not show where"),
        ([placement, "--format", "kueue-job", *at], f"{placement}: the network has no host `z`"),
        ([placement, "--format", "kueue-job", *at, "--app", "x"], "the placement has no application `x`; it has sort"),
        ([job, "--format", "kueue-job", *at, "--app", "x"], "--app is for a Placement, and "),
        (
            [job, "--format", "kueue-job", *at, "--together", "x"],
            "no value `x`; use required, preferred",
        ),
        ([job, "--format", "kueue-job", *at, "--seconds", "1"], "kueue-job has no --seconds; leave out --seconds"),
        (
            [job, "--format", "volcano-job", *at, "--older-labels"],
            "volcano-job has no labels; leave out --",
        ),
        (
            [placement, "--format", "volcano-job", *at, "--together", "unconstrained"],
            "--together unconstrained: Volcano has no such mode; use the Job without `networkTopology`",
        ),
        (
            [placement, "--format", "kubernetes-podgroup", *at, "--together", "preferred"],
            "--together preferred: a PodGroup has no such mode; use --together required",
        ),
        ([job, "--format", "diktyo-appgroup", "--seconds", "0"], "--seconds 0 is no time of a job; use 0.001 to"),
        ([job, "--format", "diktyo-appgroup", "--seconds", "nan"], "--seconds nan is no time of a job"),
        ([network, "--format", "kueue", "--together", "required"], "kueue has no --together; leave out --together"),
        ([placement, "--format", "csv", "--seconds", "1"], "csv has no --seconds; leave out --seconds"),
        ([network, "--format", "kueue-job", *at], f"{network}: is a Network; use an App"),
    ]:
        result = CliRunner().invoke(gavotte, ["export", *map(str, words)])
        assert isinstance(result.exception, GavotteError), result.output
        assert message in str(result.exception)
    with pytest.raises(GavotteError, match="format `kueue-job` is not for a Network; use slurm-conf"):
        export_network(PODS, "kueue-job")
    with pytest.raises(GavotteError, match="format `csv` is not for a job; use kueue-job, volcano-job"):
        export_job(JobQuestion(placed("a"), PODS), "csv")


def test_command_line_writes_jobs_and_prints_usage(tmp_path: Path) -> None:
    network, job, target = tmp_path / "n.network.json", tmp_path / "j.app.toml", tmp_path / "patch"
    write_network(network, PODS)
    write_app(job, builders.app("j", ("x", "y", 10)))
    for form, known in JOB_FORMATS.items():
        words = ["export", str(job), "--format", form, *(["--network", str(network)] if known.tiered else [])]
        shown = CliRunner().invoke(gavotte, words)
        written = CliRunner().invoke(gavotte, [*words, "-o", str(target)])
        facts = json.loads(CliRunner().invoke(gavotte, [*words, "--json"]).stdout)
        assert (shown.exit_code, written.exit_code) == (0, 0), shown.output + written.output
        assert shown.stdout == target.read_text() == facts["content"]
        assert f"undo: {facts['undo']}\n" in shown.stderr
        assert facts["tasks"] == 2
