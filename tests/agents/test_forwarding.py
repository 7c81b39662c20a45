"""Calls to real agents on loopback, most of which reach them through a few of them."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.shell import until

from gavotte.agents import Budget, Fleet, enrolled, forwarding
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.binary import agent_binary
from gavotte.agents.forwarding import Forwarding
from gavotte.agents.letters import Correspondent, ForwardedError
from gavotte.agents.mail import Mail
from gavotte.agents.quiet import grpc
from gavotte.agents.schedule import Answer, Step, carry_out
from gavotte.formats.inventory import FORMAT, Inventory

COUNT = 9
NAMES = [f"vm{number}" for number in range(COUNT)]
BUDGET = Budget(10**9, 120.0)

pytestmark = pytest.mark.slow


@dataclass
class Cloud:
    """Agents on loopback addresses, and their inventory."""

    folder: Path
    agents: dict[str, subprocess.Popen[bytes]]
    inventory: Inventory

    def start(self, name: str) -> None:
        """Start the agent of one host."""
        number = NAMES.index(name)
        # Any port, since other tests may use the same addresses at the same time.
        place = ["--socket", str(self.folder / f"{name}.sock"), "--bind", f"127.65.0.{number + 1}", "--data-port", "0"]
        line = [agent_binary(), "serve", *place]
        self.agents[name] = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: (self.folder / f"{name}.sock").exists())

    def kill(self, name: str) -> None:
        """Kill the agent of one host."""
        self.agents[name].kill()
        self.agents[name].wait()


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    hosts = []
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        folder = Path(place)
        for number, name in enumerate(NAMES):
            hosts.append({"name": name, "address": f"127.65.0.{number + 1}", "agent": f"unix:{folder / name}.sock"})
        cloud = Cloud(folder, {}, Inventory.model_validate({"format": FORMAT, "host": hosts}))
        for name in NAMES:
            cloud.start(name)
        try:
            yield cloud
        finally:
            for agent in cloud.agents.values():
                agent.kill()
                agent.wait()


@pytest.fixture(autouse=True)
def tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward calls although there are few agents: vm0, vm3 and vm6 forward."""
    monkeypatch.setattr(forwarding, "DIRECT", 4)
    monkeypatch.setattr(forwarding, "FEW", 0)


def ring(rounds: int = 1, seconds: float = 0.0) -> list[list[Step]]:
    """Each host sends to another one in each round."""

    def probe() -> pb.Probe:
        if seconds:
            return pb.Probe(datagrams=pb.Datagrams(seconds=seconds, rate_bps=1e5, payload_bytes=200))
        return pb.Probe(echo=pb.Echo(bytes=1))

    return [
        [Step(name, NAMES[(at + 1 + number) % COUNT], probe()) for at, name in enumerate(NAMES)]
        for number in range(rounds)
    ]


def measured(fleet: Fleet, schedule: list[list[Step]]) -> list[Answer]:
    return list(carry_out(fleet, schedule, round_s=5.0))


def test_a_schedule_runs_through_a_tree(cloud: Cloud) -> None:
    with enrolled(cloud.inventory, BUDGET, shared=True) as fleet:
        answers = measured(fleet, ring(3))
        assert [each.error for each in answers] == [""] * 3 * COUNT
        assert fleet.renew().keys() == set(NAMES)
        assert not fleet.silent
        # Only the forwarders keep a connection to the controller.
        assert fleet._reach.channels.keys() == {"vm0", "vm3", "vm6"}
    with enrolled(cloud.inventory, BUDGET, shared=True, direct=True) as fleet:
        # The first run has released all agents.
        assert all([hold.run_id for hold in reply.holds] == [fleet.run_id] for reply in fleet.status().values())


def test_refusals_are_those_of_the_agents(cloud: Cloud) -> None:
    with enrolled(cloud.inventory, BUDGET, shared=True, direct=True) as fleet:
        unknown = pb.StartRequest(run_id=fleet.run_id, replay_id="none")
        replies = fleet._ask("Start", dict.fromkeys(NAMES, unknown))
        assert {reply.failure for reply in replies.values()} == {pb.FAILURE_UNKNOWN_JOB}
        other = pb.RenewRequest(run_id="another")
        replies = fleet._ask("Renew", dict.fromkeys(NAMES, other))
        assert {reply.failure for reply in replies.values()} == {pb.FAILURE_NOT_ENROLLED}


@pytest.mark.parametrize("stopped", [False, True], ids=["killed", "stopped"])
def test_a_schedule_goes_on_when_a_forwarder_ends(cloud: Cloud, stopped: bool) -> None:
    with enrolled(cloud.inventory, BUDGET, shared=True, direct=True) as fleet:

        def end() -> None:
            time.sleep(0.7)
            if stopped:
                cloud.agents["vm3"].send_signal(signal.SIGTERM)
            else:
                cloud.kill("vm3")

        ending = threading.Thread(target=end)
        ending.start()
        answers = measured(fleet, ring(6, seconds=0.3))
        ending.join()
        failed = [each for each in answers if each.error]
        # The forwarder's own probes fail, and no other host is lost with it.
        assert failed
        others = [each for each in failed if "vm3" not in (each.source, each.target)]
        assert not [(each.round, each.source, each.target, each.error) for each in others]
        assert {host.name for host in fleet.hosts} == set(NAMES) - {"vm3"}
        assert not fleet.renew()["vm4"].ListFields()


def test_an_agent_that_its_forwarder_cannot_reach_is_called_directly(cloud: Cloud) -> None:
    with enrolled(cloud.inventory, BUDGET, shared=True, direct=True) as fleet:
        drop = pb.DropRequest(run_id=fleet.run_id, peer="vm4", reason="a test")
        assert not isinstance(fleet._ask("Drop", {"vm3": drop})["vm3"], Exception)
        replies = fleet.status()
        assert replies.keys() == set(NAMES)


def test_an_agent_that_comes_back_has_another_key(cloud: Cloud) -> None:
    with enrolled(cloud.inventory, BUDGET, shared=True, direct=True) as fleet:
        before = fleet._forwarding.correspondents["vm4"].key
        cloud.kill("vm4")
        fleet.drop("vm4", "a test")
        (cloud.folder / "vm4.sock").unlink()
        cloud.start("vm4")
        until(lambda: fleet.rejoin() == ["vm4"])
        assert fleet._forwarding.correspondents["vm4"].key != before
        assert [each.error for each in measured(fleet, ring())] == [""] * COUNT


def test_a_host_joins_that_was_missing(cloud: Cloud) -> None:
    cloud.kill("vm4")
    with enrolled(cloud.inventory, BUDGET, shared=True, direct=True) as fleet:
        assert fleet.missing.keys() == {"vm4"}
        (cloud.folder / "vm4.sock").unlink()
        cloud.start("vm4")
        until(lambda: fleet.admit("vm4") == "")
        assert [each.error for each in measured(fleet, ring())] == [""] * COUNT


def test_work_stops_when_its_controller_is_interrupted(cloud: Cloud) -> None:
    with enrolled(cloud.inventory, BUDGET, shared=True, direct=True) as fleet:
        answers = carry_out(fleet, ring(2, seconds=5.0), round_s=10.0)
        threading.Timer(0.5, fleet.interrupt).start()
        began_s = time.monotonic()
        assert {each.error != "" for each in answers} == {True}
        assert time.monotonic() - began_s < 4.0
        until(lambda: not any(hold.jobs for reply in fleet.status().values() for hold in reply.holds))


def test_forwarders_are_spread_and_replaced() -> None:
    names = [f"h{number:03}" for number in range(100)]
    tree = Forwarding("run", {})
    tree.begin(names)
    assert tree.forwarders == names[::10]
    tree.correspondents = {name: Correspondent() for name in names}
    parts = tree.sort("Renew", names, set())
    assert parts["h010"] == names[11:20]
    # Its agents go to the next one.
    tree.avoid("h010")
    assert set(names[11:20]) | set(names[21:30]) == set(tree.sort("Renew", names, set())["h020"])
    assert not tree.sort("Enrol", names, set())
    assert not tree.sort("Renew", names, set(names))
    assert tree.near("h095") == ["h090", "h000", "h010", "h020"]
    tree.begin(names[:4])
    assert not tree.forwarders


class Scripted:
    """A forwarder with a script of deliveries."""

    def __init__(self, *streams: list[pb.Delivery] | grpc.StatusCode) -> None:
        self.streams = list(streams)
        self.requests: list[pb.ForwardRequest] = []

    def Forward(self, request: pb.ForwardRequest, timeout: float | None) -> Any:  # noqa: N802 - gRPC's name
        self.requests.append(request)
        stream = self.streams.pop(0)
        if not isinstance(stream, list):
            raise ForwardedError(stream, "refused")
        return iter([pb.ForwardReply(deliveries=stream)])


def came(*streams: list[pb.Delivery] | grpc.StatusCode) -> tuple[list[Any], Scripted]:
    """Return what came of a letter to `b`, of three agents that forward for each other."""
    scripted = Scripted(*streams)
    tree = Forwarding("run", dict.fromkeys("acd", scripted))
    tree.begin(list("abcdefghi"))
    tree.forwarders = list("acd")
    tree.correspondents = {"b": Correspondent()}
    parts = tree.letters("Renew", {"b": pb.RenewRequest(run_id="run")})
    mail = Mail("a", 10.0, set)
    return [what for some in tree.answers("Renew", parts, b"", mail) for _, what in some], scripted


@pytest.mark.parametrize("junk", [b"", b"x" * 100], ids=["nothing", "junk"])
def test_an_answer_of_another_is_refused(junk: bytes) -> None:
    (error, end), _ = came([pb.Delivery(letter=0, sealed=junk), pb.Delivery(letter=7, over=True)])
    assert isinstance(error, ForwardedError)
    assert error.code() is grpc.StatusCode.DATA_LOSS
    assert end is None


def test_a_forwarder_that_refuses_is_passed_by() -> None:
    (error, _), _ = came(grpc.StatusCode.FAILED_PRECONDITION)
    assert not error.delivered


def test_a_letter_whose_forwarders_all_end_has_an_error() -> None:
    lost = [pb.Delivery(letter=0, over=True, error="broken", failure=pb.FAILURE_BROKEN)]
    (error, _), scripted = came(grpc.StatusCode.UNAVAILABLE, lost, lost)
    assert error.code() is grpc.StatusCode.ABORTED
    assert "a, c, d" in error.details()
    assert len({request.letters[0].sealed for request in scripted.requests}) == 3
