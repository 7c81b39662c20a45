"""Zones of a Network and tasks of an App as objects of Diktyo."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.export.schemas import faults
from tests.export.test_topologies import PODS
from typer.testing import CliRunner

from gavotte.cli.verbs import app as gavotte
from gavotte.errors import GavotteError
from gavotte.export import TOPOLOGY_FORMATS, JobQuestion, doubts, export_job, export_network, job_doubts
from gavotte.formats.app import App
from gavotte.formats.inventory import write_inventory
from gavotte.formats.network import write_network

NETWORK = "networktopology.diktyo.x-k8s.io_networktopologies"
GROUP = "appgroup.diktyo.x-k8s.io_appgroups"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
RACKS = builders.network(
    4,
    [[0 if m == n else 1e10 if m // 2 == n // 2 else 1e9 for n in range(4)] for m in range(4)],
    [[0 if m == n else 2e-5 if m // 2 == n // 2 else 2e-4 + 1e-6 * m for n in range(4)] for m in range(4)],
    groups=[{"name": "rack-0", "members": ["vm0", "vm1"]}, {"name": "rack-1", "members": ["vm2", "vm3"]}],
)
"""Two racks, 0.02 ms and 10 Gbit/s within and 0.2 ms and 1 Gbit/s between them."""


def labelled(*places: tuple[str, str], **fields: Any) -> Any:
    hosts = [
        {"name": f"vm{number}", "labels": {ZONE: zone} | ({REGION: region} if region else {})}
        for number, (region, zone) in enumerate(places)
    ]
    return builders.network(hosts, **fields)


def costs(network: Any) -> dict[str, dict[tuple[str, str], int]]:
    """Return the cost by key, origin and destination, in a NetworkTopology that its definition allows."""
    document = yaml.safe_load(export_network(network, "diktyo"))
    assert faults(NETWORK, document) == []
    (weight,) = document["spec"]["weights"]
    assert weight["name"] == "UserDefined"
    for topology in weight["topologyList"]:
        origins = [origin["origin"] for origin in topology["originList"]]
        assert origins == list(dict.fromkeys(origins)), "NetworkOverhead searches for an origin"
    return {
        topology["topologyKey"]: {
            (origin["origin"], cost["destination"]): cost["networkCost"]
            for origin in topology["originList"]
            for cost in origin["costList"]
        }
        for topology in weight["topologyList"]
    }


def group(app: App, **options: Any) -> Any:
    document = yaml.safe_load(export_job(JobQuestion(app, **options), "diktyo-appgroup"))
    assert faults(GROUP, document) == []
    return document


def dependencies(app: App, **options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the limits by dependent task and the task on which it depends."""
    return {
        (workload["workload"]["selector"], each["workload"]["selector"]): {
            key: value for key, value in each.items() if key != "workload"
        }
        for workload in group(app, **options)["spec"]["workloads"]
        for each in workload.get("dependencies", [])
    }


def test_racks_are_zones_whose_cost_is_the_latency() -> None:
    assert costs(RACKS) == {ZONE: {("rack-0", "rack-1"): 21, ("rack-1", "rack-0"): 21}}
    document = yaml.safe_load(export_network(RACKS, "diktyo"))
    capacity = document["spec"]["weights"][0]["topologyList"][0]["originList"][0]["costList"][0]["bandwidthCapacity"]
    assert capacity == "1000000000"


@pytest.mark.parametrize(
    ("latency_s", "cost"), [(0.0, 1), (1e-6, 1), (2e-5, 2), (2e-4, 20), (2.01e-4, 21), (0.1, 10_000), (5.0, 10_000)]
)
def test_costs_are_rounded_up_and_bounded(latency_s: float, cost: int) -> None:
    two = labelled(("", "x"), ("", "y"), latency_s=latency_s)
    assert costs(two)[ZONE] == {("x", "y"): cost, ("y", "x"): cost}


def test_labels_are_zones_and_regions() -> None:
    places = ("north", "n1"), ("north", "n2"), ("south", "s1")
    both = labelled(*places, latency_s=[[0, 2e-4, 5e-3], [3e-4, 0, 6e-3], [5e-3, 6e-3, 0]])
    assert costs(both) == {
        REGION: {("north", "south"): 550, ("south", "north"): 550},
        ZONE: {("n1", "n2"): 20, ("n2", "n1"): 30},
    }
    assert export_network(both, "diktyo-zones").splitlines()[2] == f"kubectl label node vm2 {ZONE}=s1 {REGION}=south"
    assert "bandwidthCapacity" not in export_network(both, "diktyo")


def test_zones_are_set_and_removed_but_never_replaced() -> None:
    text = export_network(RACKS, "diktyo-zones")
    assert text.splitlines()[0] == f"kubectl label node vm0 {ZONE}=rack-0"
    assert "--overwrite" not in text
    undo = TOPOLOGY_FORMATS["diktyo-zones"].undo.format(file="-").removesuffix(" | sh")
    undone = subprocess.run(["sh", "-c", undo], input=text, capture_output=True, text=True, check=True).stdout
    assert undone.splitlines()[0] == f"kubectl label node vm0 {ZONE}-"


def test_names_of_racks_that_no_label_allows_are_replaced() -> None:
    groups = [{"name": "rack:0", "members": ["vm0"]}, {"name": "rack-1", "members": ["vm1"]}]
    odd = builders.network(2, latency_s=1e-4, groups=groups)
    (warning,) = doubts(odd, "diktyo")
    other = warning.split("`")[3]
    assert warning == f"zone `rack:0` is written as `{other}`: Kubernetes does not allow its name"
    assert f"{ZONE}={other}\n" in export_network(odd, "diktyo-zones")
    assert (other, "rack-1") in costs(odd)[ZONE]
    assert doubts(labelled(("", "x"), ("", "y")), "diktyo") == []


def test_networks_that_diktyo_cannot_express_are_one_line() -> None:
    many = labelled(*(("", f"zone-{number}") for number in range(110)), latency_s=1e-4, rate_bps=1e9)
    most = labelled(*(("", f"zone-{number}") for number in range(400)), latency_s=1e-4)
    half = builders.network([{"name": "a", "labels": {ZONE: "x"}}, "b"], latency_s=1e-4)
    for network, message in (
        (
            builders.network(2, latency_s=1e-4),
            "groups: all hosts are in one zone, `root`, and Diktyo has costs",
        ),
        (labelled(("", "x"), ("", "y")), "latency_s: no latency is known from zone `x` to zone `y`; measure their"),
        (labelled(("r", "x"), ("q", "x")), "hosts.labels: zone `x` is in the regions `r` and `q`; give zones of"),
        (half, f"hosts.labels: host `b` has no label `{ZONE}`; write the labels of its node there"),
        (labelled(("", "no zone"), ("", "y")), f"hosts.labels: host `vm0` has `no zone` as label `{ZONE}`, which no"),
        (most, "groups: the 159600 costs between 400 zones"),
        (many, "groups: the 11990 costs between 110 zones are more than the 1048576 bytes that Kubernetes keeps; give"),
    ):
        with pytest.raises(GavotteError, match=message):
            export_network(network, "diktyo")


def test_tasks_depend_on_earlier_ones_with_the_bytes_of_the_larger_direction() -> None:
    app = builders.app(
        "sort",
        ("a", "b", 1000),
        ("b", "a", 3000),
        ("c", "a", 10, 1),
        ("c", "a", 15),
        tasks=["a", "b", "c", "d"],
    )
    assert dependencies(app) == {
        ("b", "a"): {"maxNetworkCost": 10_000},
        ("c", "a"): {"maxNetworkCost": 10_000},
    }
    assert dependencies(app, seconds=2.0) == {
        ("b", "a"): {"minBandwidth": "12000", "maxNetworkCost": 10_000},
        ("c", "a"): {"minBandwidth": "100", "maxNetworkCost": 10_000},
    }
    document = group(app)
    assert document["metadata"] == {"name": "sort"}
    assert document["spec"]["numMembers"] == 4
    assert document["spec"]["topologySortingAlgorithm"] == "ReverseKahn"
    assert [each["workload"]["selector"] for each in document["spec"]["workloads"]] == ["a", "b", "c", "d"]


def test_a_bound_on_latency_is_the_largest_cost() -> None:
    bounds = [{"source": "b", "target": "a", "seconds": 2.5e-4}, {"source": "a", "target": "b", "seconds": 2e-4}]
    bounds += [{"source": "c", "target": "a", "seconds": 9.0}]
    app = builders.app("sort", ("a", "b", 1000), tasks=["a", "b", "c"], constraints={"max_latency": bounds})
    assert dependencies(app, seconds=1.0) == {
        ("b", "a"): {"minBandwidth": "8000", "maxNetworkCost": 20},
        ("c", "a"): {"maxNetworkCost": 10_000},
    }


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), max_size=20))
def test_each_pair_that_exchanges_bytes_is_one_dependency_and_there_are_no_circles(ways: list[Any]) -> None:
    app = builders.app("j", *((f"t{a}", f"t{b}", size) for a, b, size in ways), tasks=[f"t{n}" for n in range(6)])
    pairs = {(f"t{max(a, b)}", f"t{min(a, b)}") for a, b, size in ways if a != b and size}
    assert set(dependencies(app)) == pairs, "the controller sorts no graph with a circle"


def test_names_that_kubernetes_does_not_allow_are_replaced() -> None:
    app = builders.app("Sort", ("map:0", "b", 10))
    warnings = job_doubts(JobQuestion(app), "diktyo-appgroup")
    assert [warning.split("`")[1] for warning in warnings] == ["Sort", "map:0"]
    document = group(app)
    assert document["metadata"]["name"] == warnings[0].split("`")[3]
    assert document["spec"]["workloads"][0]["workload"]["selector"] == warnings[1].split("`")[3]


def test_apps_that_diktyo_cannot_express_are_one_line() -> None:
    names = [f"task-{number}" for number in range(200)]
    large = builders.app("j", *((a, b, 1) for a in names for b in names if a < b))
    soft = {"max_latency": [{"source": "a", "target": "b", "seconds": 1.0, "price_s": 1.0}]}
    for app, message in (
        (
            builders.app("j", ("a", "b", 1), constraints={"apart": [["a", "b"]]}),
            "constraints.apart: an AppGroup has",
        ),
        (
            builders.app("j", ("a", "b", 1), constraints={"max_hosts": 1}),
            "constraints.max_hosts: an AppGroup has",
        ),
        (
            builders.app("j", ("a", "b", 1), constraints=soft),
            r"constraints.max_latency\[0\].price_s: an AppGroup",
        ),
        (large, "transfer: the AppGroup of 19900 pairs of tasks has .* bytes, and Kubernetes keeps 1048576; leave out"),
    ):
        with pytest.raises(GavotteError, match=message):
            group(app)
    with pytest.raises(GavotteError, match="an AppGroup needs bytes, which a Placement lacks"):
        export_job(JobQuestion(builders.placement({"t": "a"}), PODS), "diktyo-appgroup")


def test_an_inventory_has_the_zones_that_a_measured_network_lacks(tmp_path: Path) -> None:
    network, hosts = tmp_path / "n.network.json", tmp_path / "h.hosts.toml"
    write_network(network, RACKS)
    inventory = builders.inventory(RACKS.names)
    listed = [
        host.model_copy(update={"labels": {ZONE: f"z{number % 2}"}}) for number, host in enumerate(inventory.host)
    ]
    write_inventory(hosts, inventory.model_copy(update={"host": listed}))
    words = ["export", str(network), "--format", "diktyo-zones"]
    assert CliRunner().invoke(gavotte, words).stdout.splitlines()[1] == f"kubectl label node vm1 {ZONE}=rack-0"
    with_hosts = CliRunner().invoke(gavotte, [*words, "--hosts", str(hosts)])
    assert with_hosts.stdout.splitlines()[1] == f"kubectl label node vm1 {ZONE}=z1"
    refused = CliRunner().invoke(gavotte, [*words[:-1], "kueue", "--hosts", str(hosts)])
    assert str(refused.exception) == "kueue has no --hosts; leave out --hosts"
    write_network(network, builders.network(2))
    refused = CliRunner().invoke(gavotte, [*words[:-1], "diktyo", "--json"])
    assert str(refused.exception).startswith(f"{network}: groups: all hosts are in one zone")
    facts = json.loads(CliRunner().invoke(gavotte, [*words, "--json"]).stdout)
    assert facts["warnings"] == []
