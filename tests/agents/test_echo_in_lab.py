"""The smallest kind of work, requested from Python."""

from __future__ import annotations

import pytest

from gavotte import lab
from gavotte.agents import Budget, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.formats.inventory import read_inventory

pytestmark = pytest.mark.lab


def test_bytes_come_back(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    with enrolled(inventory, Budget(max_bytes=1 << 20, max_seconds=60.0)) as fleet:
        step = Step("a", "c", pb.Probe(echo=pb.Echo(bytes=10_000)))
        (answer,) = carry_out(fleet, [[step]], round_s=60.0)
    reply = answer.checked()
    assert (reply.WhichOneof("result"), reply.bytes_sent) == ("echo", 10_000)
    assert reply.echo.seconds > 0
