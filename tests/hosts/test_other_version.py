"""An agent of another version, simulated by a small gRPC server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from gavotte import lab
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.agent_pb2_grpc import AgentServicer, add_AgentServicer_to_server
from gavotte.agents.fleet import PROTOCOL
from gavotte.formats.inventory import read_inventory
from gavotte.hosts import check
from gavotte.measure import measure

OTHER = 99


class Stranger(AgentServicer):
    def Health(self, request: Any, context: Any) -> pb.HealthReply:  # noqa: N802 - gRPC's name
        return pb.HealthReply(version="9.9.9", protocol=OTHER, cpus=1.0)


@pytest.fixture
def stranger(runtime: Path) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_AgentServicer_to_server(Stranger(), server)  # type: ignore[no-untyped-call]
    route = f"unix:{runtime / 'stranger.sock'}"
    server.add_insecure_port(route)
    server.start()
    yield route
    server.stop(None).wait()


@pytest.mark.lab
def test_it_is_named_and_the_others_are_used(small_cloud: lab.Session, stranger: str) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    changed = inventory.host[1].model_copy(update={"agent": stranger})
    partly = inventory.model_copy(update={"host": [inventory.host[0], changed, inventory.host[2]]})
    verdict = f"its agent 9.9.9 speaks protocol {OTHER}, but this controller {PROTOCOL}"
    state = check(partly)
    assert [host.verdict for host in state.hosts] == ["ready", verdict, "ready"]
    result = measure(partly)
    assert result.missing == {"b": verdict}
    assert result.answered == 2
