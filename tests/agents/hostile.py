"""An agent that misbehaves: a real gRPC server that speaks the contract, and sends one kind of false answers.

It measures nothing. Its results of probes are made up, and plausible except for the one thing that is wrong.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.agent_pb2_grpc import AgentServicer, add_AgentServicer_to_server
from gavotte.agents.fleet import PROTOCOL
from gavotte.formats.inventory import FORMAT, Inventory

RATE_BPS = 1e8
ESCAPES = "\x1b[2J\x1b]0;owned\x07 quite\nwell \u202e"


class PlayedAgent(AgentServicer):
    """Reports that every probe found `RATE_BPS` and every transfer took a second."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.started = threading.Event()

    def Health(self, request: Any, context: Any) -> pb.HealthReply:  # noqa: N802 - gRPC's names
        return pb.HealthReply(version="0", protocol=PROTOCOL, cpus=2.0, data_port=7411, memory_bytes=1 << 30)

    def Enrol(self, request: Any, context: Any) -> pb.EnrolReply:  # noqa: N802
        return pb.EnrolReply(budget=request.budget)

    def Renew(self, request: Any, context: Any) -> pb.RenewReply:  # noqa: N802
        return pb.RenewReply()

    def Status(self, request: Any, context: Any) -> pb.StatusReply:  # noqa: N802
        return pb.StatusReply()

    def Drop(self, request: Any, context: Any) -> pb.DropReply:  # noqa: N802
        return pb.DropReply()

    def Release(self, request: Any, context: Any) -> pb.ReleaseReply:  # noqa: N802
        self.over.set()
        return pb.ReleaseReply()

    def Start(self, request: Any, context: Any) -> pb.StartReply:  # noqa: N802
        self.started.set()
        return pb.StartReply()

    def Measure(self, request: Any, context: Any) -> Iterator[pb.ProbeReply]:  # noqa: N802
        for probe in request.probes:
            yield self.answer(probe)

    def Replay(self, request: Any, context: Any) -> Iterator[pb.ReplayReply]:  # noqa: N802
        yield pb.ReplayReply(ready=pb.Ready(connected=len(request.transfers)))
        self.started.wait(10)
        for each in request.transfers:
            yield pb.ReplayReply(done=pb.TransferDone(id=each.id, start_s=0.1, finish_s=1.1, bytes=each.bytes))

    def answer(self, probe: pb.Probe) -> pb.ProbeReply:
        """Return the result of one probe."""
        reply = pb.ProbeReply(round=probe.round, peer=probe.peer, rtt_s=1e-3, hops=2, started_s=0.1, seconds=0.1)
        kind = probe.WhichOneof("kind")
        if kind == "gated_train":
            reply.gated_train.CopyFrom(
                pb.GatedTrainResult(
                    verdict=pb.VERDICT_PATH_LIMITED,
                    rate_bps=RATE_BPS,
                    low_bps=0.99 * RATE_BPS,
                    high_bps=1.01 * RATE_BPS,
                    first_unix_ns=10**18,
                    bin_s=0.01,
                    bin_bytes=[int(RATE_BPS / 800)] * 20,
                )
            )
        elif kind == "bulk":
            flow = pb.FlowResult(bytes=int(RATE_BPS / 8), seconds=1.0, bin_bytes=[int(RATE_BPS / 800)] * 100)
            reply.bulk.CopyFrom(pb.BulkResult(goodput_bps=RATE_BPS, flows=[flow]))
        elif kind == "ping_pong":
            sizes = [pb.SizeTimes(bytes=n, seconds=[1e-3 + 8 * n / RATE_BPS]) for n in probe.ping_pong.bytes]
            reply.ping_pong.CopyFrom(pb.PingPongResult(sizes=sizes))
        elif kind == "burst_train":
            reply.burst_train.CopyFrom(pb.BurstTrainResult(sent=10, received=10, rate_bps=RATE_BPS))
        elif kind == "traceroute":
            reply.traceroute.CopyFrom(pb.TracerouteResult(reached=True))
        else:
            reply.echo.CopyFrom(pb.EchoResult(seconds=1e-3))
        return reply


class Liar(PlayedAgent):
    """Changes every answer to a probe."""

    def __init__(self, lie: Callable[[pb.ProbeReply], None]) -> None:
        super().__init__()
        self._lie = lie

    def answer(self, probe: pb.Probe) -> pb.ProbeReply:
        reply = super().answer(probe)
        self._lie(reply)
        return reply


class Repeater(PlayedAgent):
    """Answers everything twice."""

    def Measure(self, request: Any, context: Any) -> Iterator[pb.ProbeReply]:  # noqa: N802
        for probe in request.probes:
            yield self.answer(probe)
            yield self.answer(probe)


class Chatterer(PlayedAgent):
    """Answers without an end, also questions that were never asked."""

    def Measure(self, request: Any, context: Any) -> Iterator[pb.ProbeReply]:  # noqa: N802
        while context.is_active():
            yield pb.ProbeReply(round=10**6, peer="nobody")


class Mute(PlayedAgent):
    """Accepts its part of a schedule and reports nothing."""

    def Measure(self, request: Any, context: Any) -> Iterator[pb.ProbeReply]:  # noqa: N802
        self.over.wait(60)
        yield from ()

    def Replay(self, request: Any, context: Any) -> Iterator[pb.ReplayReply]:  # noqa: N802
        self.over.wait(60)
        yield from ()


class Hanging(PlayedAgent):
    """Never answers one method."""

    def __init__(self, method: str) -> None:
        super().__init__()
        setattr(self, method, lambda request, context: self.over.wait(60))

    # Waiting calls end when the test ends, not when the controller does.
    def Release(self, request: Any, context: Any) -> pb.ReleaseReply:  # noqa: N802
        return pb.ReleaseReply()


class Frozen(Hanging):
    """Connects, and from then on sends nothing, not even renewals."""

    def __init__(self) -> None:
        super().__init__("Renew")

    def Replay(self, request: Any, context: Any) -> Iterator[pb.ReplayReply]:  # noqa: N802
        yield ready()
        self.over.wait(60)


class Escaping(PlayedAgent):
    """Tries to steer the terminal by every text that it sends."""

    def Health(self, request: Any, context: Any) -> pb.HealthReply:  # noqa: N802
        health = super().Health(request, context)
        health.version = health.kernel = health.hostname = health.congestion = ESCAPES
        return health

    def Status(self, request: Any, context: Any) -> pb.StatusReply:  # noqa: N802
        job = pb.JobStatus(id=ESCAPES, kind=ESCAPES, state=pb.JOB_STATE_RUNNING)
        hold = pb.HoldStatus(run_id=ESCAPES, user=ESCAPES, purpose=ESCAPES, jobs=[job])
        beside = pb.Neighbour(run_id=ESCAPES, user=ESCAPES, purpose=ESCAPES, kind=ESCAPES)
        return pb.StatusReply(holds=[hold], beside=[beside])

    def Logs(self, request: Any, context: Any) -> pb.LogsReply:  # noqa: N802
        return pb.LogsReply(entries=[ESCAPES])

    def answer(self, probe: pb.Probe) -> pb.ProbeReply:
        return pb.ProbeReply(round=probe.round, peer=probe.peer, error=ESCAPES, failure=pb.FAILURE_BROKEN)


class Unwell(PlayedAgent):
    """Reports impossible properties of its host."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self._changes = changes

    def Health(self, request: Any, context: Any) -> pb.HealthReply:  # noqa: N802
        health = super().Health(request, context)
        for name, value in self._changes.items():
            setattr(health, name, value)
        return health


class Storyteller(PlayedAgent):
    """Reports impossible results of transfers."""

    def __init__(self, tell: Callable[[Sequence[pb.Transfer]], list[pb.ReplayReply]]) -> None:
        super().__init__()
        self._tell = tell

    def Replay(self, request: Any, context: Any) -> Iterator[pb.ReplayReply]:  # noqa: N802
        yield from self._tell(request.transfers)


def ready() -> pb.ReplayReply:
    """Report that all transfers are connected."""
    return pb.ReplayReply(ready=pb.Ready(connected=1))


def done(number: int, **changes: float) -> pb.ReplayReply:
    """Report that one transfer has ended."""
    return pb.ReplayReply(done=pb.TransferDone(id=number, **({"start_s": 0.1, "finish_s": 1.0} | changes)))  # type: ignore[arg-type]


def rated(value: float) -> Callable[[pb.ProbeReply], None]:
    """Return a false rate of a probe, whatever its kind."""

    def lie(reply: pb.ProbeReply) -> None:
        kind = reply.WhichOneof("result")
        if kind == "ping_pong":
            for size in reply.ping_pong.sizes:
                size.seconds[:] = [value]
        elif kind in ("gated_train", "bulk", "burst_train"):
            result = getattr(reply, kind)
            setattr(result, "goodput_bps" if kind == "bulk" else "rate_bps", value)

    return lie


def setting(**fields: Any) -> Callable[[pb.ProbeReply], None]:
    """Return an answer with some false fields."""

    def lie(reply: pb.ProbeReply) -> None:
        for name, value in fields.items():
            setattr(reply, name, value)

    return lie


def binned(reply: pb.ProbeReply) -> None:
    """No bytes, or all that exist, in no time."""
    reply.gated_train.bin_s = 1e-300
    reply.gated_train.bin_bytes[:] = [2**63 - 1] * 3
    reply.gated_train.first_unix_ns = 0


NOT_A_NUMBER = (math.nan, math.inf, -math.inf, -1.0, 1e300)

WORSE: dict[str, Callable[[], PlayedAgent]] = {
    **{f"rate {value}": lambda value=value: Liar(rated(value)) for value in NOT_A_NUMBER},  # type: ignore[misc]
    "a round trip of no number": lambda: Liar(setting(rtt_s=math.nan)),
    "a negative time": lambda: Liar(setting(seconds=-5.0)),
    "a time beyond the deadline": lambda: Liar(setting(started_s=1e6)),
    "four billion hops": lambda: Liar(setting(hops=2**32 - 1)),
    "a share above one": lambda: Liar(setting(sender_cpu=17.0)),
    "a failure of no meaning": lambda: Liar(setting(failure=4711, error="no")),
    "another round": lambda: Liar(setting(round=99)),
    "another peer": lambda: Liar(setting(peer="nobody")),
    "the result of another kind": lambda: Liar(lambda reply: reply.echo.CopyFrom(pb.EchoResult(seconds=1.0))),
    "no result": lambda: Liar(lambda reply: reply.ClearField(reply.WhichOneof("result"))),
    "twice": Repeater,
    "without an end": Chatterer,
    "silent": Mute,
    "hangs in Health": lambda: Hanging("Health"),
    "hangs in Enrol": lambda: Hanging("Enrol"),
    "cpus of no number": lambda: Unwell(cpus=math.nan),
    "data port 0": lambda: Unwell(data_port=0),
    "data port 70000": lambda: Unwell(data_port=70_000),
    "another protocol": lambda: Unwell(protocol=2**32 - 1),
}
"""Agents that must be dropped by name, by their fault."""

ODD: dict[str, Callable[[], PlayedAgent]] = {
    "escapes": Escaping,
    "wild bins": lambda: Liar(binned),
    "hangs in Renew": lambda: Hanging("Renew"),
    "hangs in Status": lambda: Hanging("Status"),
    "hangs in Release": lambda: Hanging("Release"),
}
"""Agents that may take part, and must do no harm."""


@contextmanager
def serving(folder: Path, agents: dict[str, PlayedAgent]) -> Iterator[Inventory]:
    """Serve agents by host name on sockets of their own; yield their inventory."""
    hosts = []
    with ExitStack() as stack:
        for number, (name, agent) in enumerate(agents.items(), start=1):
            socket = folder / f"{number}.sock"
            server = grpc.server(ThreadPoolExecutor(8))
            add_AgentServicer_to_server(agent, server)  # type: ignore[no-untyped-call]
            server.add_insecure_port(f"unix:{socket}")
            server.start()
            stack.callback(server.stop, None)
            stack.callback(agent.over.set)
            hosts.append({"name": name, "address": f"10.0.0.{number}", "agent": f"unix:{socket}"})
        yield Inventory.model_validate({"format": FORMAT, "host": hosts})
