"""The lease of a run follows the time in which its agents answer the first call."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agents.hostile import PlayedAgent, serving

from gavotte.agents import Budget, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.fleet import LEASE_GREETINGS, LEAST_LEASE_S, MOST_LEASE_S, lease_of


class Far(PlayedAgent):
    """Answers the first call late, and notes the leases that it is asked for."""

    def __init__(self, late_s: float) -> None:
        super().__init__()
        self.late_s = late_s
        self.leases_s: list[float] = []

    def Health(self, request: Any, context: Any) -> pb.HealthReply:  # noqa: N802 - gRPC's names
        time.sleep(self.late_s)
        return super().Health(request, context)

    def Enrol(self, request: Any, context: Any) -> pb.EnrolReply:  # noqa: N802
        self.leases_s.append(request.lease_s)
        return super().Enrol(request, context)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def test_a_lease_grows_with_the_slowest_greeting(folder: Path) -> None:
    near, far = Far(0.0), Far(0.2)
    with (
        serving(folder, {"near": near, "far": far}) as inventory,
        enrolled(inventory, Budget(1, 60.0), shared=True, direct=True) as fleet,
    ):
        assert fleet.lease_s >= LEAST_LEASE_S + LEASE_GREETINGS * 0.2
    # All agents of a run have one lease.
    assert near.leases_s == far.leases_s == [fleet.lease_s]


def test_a_lease_has_limits() -> None:
    assert lease_of(0.0) == LEAST_LEASE_S
    assert LEAST_LEASE_S < lease_of(0.15) < MOST_LEASE_S
    assert lease_of(100.0) == MOST_LEASE_S
