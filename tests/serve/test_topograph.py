"""Topograph's API: asked as its clients do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.served import Answer, Served, racks, serving

from gavotte.export import export_network
from gavotte.formats.network import write_network

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serving(folder, network=racks()) as server:
        yield server


def result(served: Served, request: object) -> Answer:
    """Return the topology of a request, after polling for it."""
    accepted = served.ask("/v1/generate", request)
    assert accepted.status == 202, accepted.text
    end = time.monotonic() + 20
    while (answer := served.ask(f"/v1/topology?uid={accepted.text}")).status == 202:
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer


def test_the_graph_is_the_one_that_export_writes(served: Served) -> None:
    for request in ("", {}, {"provider": {"name": "gavotte"}, "engine": {"name": "graph"}}):
        answer = result(served, request)
        assert (answer.status, answer.text) == (200, export_network(racks(), "topograph"))


def test_slurm_gets_its_tree(served: Served) -> None:
    request = {"engine": {"name": "slurm", "params": {"plugin": "topology/tree"}}}
    assert result(served, request).text == export_network(racks(), "slurm-conf")


def test_only_the_requested_nodes_are_in_the_answer_by_their_identifiers(served: Served) -> None:
    nodes = [{"region": "r", "instances": {"i-0": "vm0", "i-2": "vm2"}}, {"region": "s", "instances": {"i-9": "other"}}]
    instances = result(served, {"nodes": nodes}).json["instances"]
    assert {each["id"] for each in instances} == {"i-0", "i-2"}
    assert result(served, {"engine": {"name": "slurm"}, "nodes": nodes}).text.count("Nodes=vm") == 2
    answer = result(served, {"nodes": nodes[1:]})
    assert (answer.status, answer.text) == (500, "no node of the request is a host of the Network; measure the nodes\n")


def test_a_request_is_looked_up_by_its_content(served: Served) -> None:
    request: dict[str, Any] = {"engine": {"name": "slurm", "params": {"mark": 7}}}
    assert served.ask("/v1/lookup", request).status == 404
    made = result(served, request)
    answer = served.ask("/v1/lookup", request | {"provider": {"creds": {"secret": "x"}}})
    assert (answer.status, answer.text) == (200, made.text)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"provider": {"name": "aws"}}, "unsupported provider aws; use gavotte"),
        ({"engine": {"name": "k8s"}}, "unsupported engine k8s; use one of graph, slurm"),
        ({"engine": {"params": {"plugin": "topology/block"}}}, "only the plugin topology/tree is supported"),
        ({"engine": {"params": {"reconfigure": True}}}, "this service writes no files"),
        ({"nodes": 3}, "request: nodes: "),
        ("{", "request: is not JSON"),
    ],
)
def test_what_is_refused_says_why(served: Served, request_: object, message: str) -> None:
    answer = served.ask("/v1/generate", request_)
    assert answer.status == 400
    assert answer.text.startswith(message)
    assert answer.text.count("\n") == 1


def test_unknown_results_and_wrong_methods(served: Served) -> None:
    assert served.ask("/v1/topology?uid=none").status == 404
    assert served.ask("/v1/topology").status == 400
    assert served.ask("/v1/generate").status == 405


def test_a_changed_network_is_served_and_a_damaged_one_is_not(served: Served, folder: Path) -> None:
    fewer = racks().of_hosts([0, 1, 4])
    write_network(folder / "n.network.json", fewer)
    assert result(served, {}).text == export_network(fewer, "topograph")
    (folder / "n.network.json").write_text("{")
    assert result(served, {}).text == export_network(fewer, "topograph")
    write_network(folder / "n.network.json", racks())
    assert result(served, {}).text == export_network(racks(), "topograph")
