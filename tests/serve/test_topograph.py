"""Topograph's API: asked as its clients do."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.serve.served import Answer, Served, racks, serving

from gavotte.export import export_network
from gavotte.formats.network import write_network
from gavotte.serve.topograph import Topograph

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


def test_older_labels_are_those_that_export_writes(tmp_path: Path) -> None:
    hosts = [host.model_copy(update={"machine": "m0"}) if host.name < "vm2" else host for host in racks().hosts]
    network = racks().model_copy(update={"hosts": hosts})
    with serving(tmp_path, "--older-labels", network=network) as served:
        text = result(served, {}).text
        assert text == export_network(network, "topograph", older_labels=True)
        assert '"network.topology.nvidia.com/accelerator": "m0"' in text
        slurm = result(served, {"engine": {"name": "slurm"}})
        assert (slurm.status, slurm.text) == (200, export_network(network, "slurm-topology"))


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


UPDATE = '{"provider":{"name":"aws"},"engine":{"name":"slurm","params":{"topologyConfigPath":"%s","reconfigure":true}}}'
"""Body that the script sends which `scripts/create-topology-update-script.sh` of Topograph 1.0 writes for Slurm."""

OBSERVER = '{"provider":{"name":"%s","creds":null,"params":null},"engine":{"name":"%s","params":null},"nodes":null}'
"""Body that Topograph's node observer sends: Go's JSON of `NewRequest` in `pkg/topology/request.go`."""


@pytest.mark.parametrize("provider", ["aws", "gcp", "oci", "nebius", "azure", "infiniband-bm", "test", "gavotte"])
def test_any_provider_gets_what_was_measured(served: Served, provider: str) -> None:
    answer = result(served, OBSERVER % (provider, "slurm"))
    assert (answer.status, answer.text) == (200, export_network(racks(), "slurm-conf"))


def test_blocks_have_the_sizes_of_the_request(served: Served) -> None:
    params: dict[str, Any] = {"plugin": "topology/block"}
    assert result(served, {"engine": {"name": "slurm", "params": params}}).text == export_network(
        racks(), "slurm-blocks"
    )
    answer = result(served, {"engine": {"name": "slurm", "params": params | {"blockSizes": [1, 4]}}})
    assert answer.text.splitlines()[-1] == "BlockSizes=1,4"
    for sizes, message in (
        ([2], "blockSizes: 2 is no size of blocks"),
        ([1, 3], "blockSizes: 3 is not 1 times a power"),
    ):
        answer = result(served, {"engine": {"name": "slurm", "params": params | {"blockSizes": sizes}}})
        assert answer.status == 500
        assert answer.text.startswith(message)


def test_a_file_that_may_not_be_written_is_answered_as_text(folder: Path) -> None:
    with serving(folder, network=racks()) as server:
        answer = result(server, UPDATE % (folder / "topology.conf"))
        assert (answer.status, answer.text) == (200, export_network(racks(), "slurm-conf"))
        assert not (folder / "topology.conf").exists()
    assert f"start the service with --topology-file {folder}/topology.conf to allow it" in server.complaints


def test_the_file_that_may_be_written_is_written_and_slurm_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, calls = tmp_path / "topology.conf", tmp_path / "calls"
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n[ ! -e {tmp_path}/down ] || {{ echo down >&2; exit 1; }}\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with serving(tmp_path, "--topology-file", target, network=racks()) as server:
        answer = result(server, UPDATE % target)
        assert (answer.status, answer.text) == (200, "OK\n")
        assert target.read_text() == export_network(racks(), "slurm-conf")
        assert calls.read_text() == "reconfigure\n"
        assert result(server, UPDATE % (tmp_path / "other.conf")).text == target.read_text()
        assert not (tmp_path / "other.conf").exists()
        (tmp_path / "down").touch()
        answer = result(server, UPDATE % target)
        assert (answer.status, answer.text) == (500, "scontrol reconfigure: down; see Slurm's log\n")


def test_labels_are_up_to_date_where_the_service_keeps_them() -> None:
    async def asked() -> tuple[int, str]:
        service = Topograph(racks, None, True, print)
        application = web.Application()
        application.add_routes(service.routes())
        async with TestClient(TestServer(application)) as client:
            body = (OBSERVER % ("aws", "k8s")).encode()
            uid = await (await client.post("/v1/generate", data=body)).text()
            while (answer := await client.get("/v1/topology", params={"uid": uid})).status == 202:
                await asyncio.sleep(0.01)
            return answer.status, await answer.text()

    assert asyncio.run(asked()) == (200, "OK\n")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"engine": {"name": "k8s"}}, "the engine k8s labels nodes; start the service with --label-nodes"),
        ({"engine": {"name": "slinky"}}, "unsupported engine slinky; use one of graph, slurm, k8s"),
        ({"engine": {"name": "slurm", "params": {"plugin": "topology/flat"}}}, "unsupported plugin topology/flat"),
        (
            {"engine": {"name": "slurm", "params": {"topologies": {"a": {}}}}},
            "engine.params.topologies is not supported",
        ),
        ({"engine": {"name": "slurm", "params": {"blockSizes": "a"}}}, "request: engine.params: blockSizes: "),
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
