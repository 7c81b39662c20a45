"""The agents of one run: found healthy, enrolled under one secret, released at the end."""

from __future__ import annotations

import queue
import random
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import grpc

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.agent_pb2_grpc import AgentStub
from gavotte.agents.calls import aside
from gavotte.agents.reach import Reach, reaching
from gavotte.errors import AgentError, BusyError
from gavotte.formats.inventory import Host, Inventory

PROTOCOL = 1
"""Must equal the agent's: grows with every incompatible change of `proto/`."""

CALL_DEADLINE_S = 10.0
"""For calls that only exchange a few bytes with one agent."""


PATIENCE_S = 5.0
"""How long agents that another run holds are waited for: `gavotte watch` holds them for less at a time."""

LOST_DEADLINE_S = 2.0
"""The same for a host that was dropped."""


@dataclass(frozen=True)
class Budget:
    """What one agent may spend in the run.

    Attributes:
        max_bytes: payload bytes it may send.
        max_seconds: how long the run may hold it.
    """

    max_bytes: int
    max_seconds: float


class Fleet:
    """Enrolled agents by host name.

    Attributes:
        run_id: names the run at every agent.
        inventory: all hosts; cpus and memory that it left out are what the agents found.
        hosts: the inventory's hosts whose agents answer, in its order.
        health: what each of them said of itself.
        missing: host to reason, for those that did not answer or have gone since.
        lost: host to reason, for those that were dropped.
    """

    def __init__(self, inventory: Inventory, reach: Reach, run_id: str | None = None) -> None:
        self.run_id = run_id or secrets.token_hex(8)
        self.inventory = inventory
        self.hosts: list[Host] = []
        self.health: dict[str, pb.HealthReply] = {}
        self.missing: dict[str, str] = {}
        self.lost: dict[str, str] = {}
        self._reach = reach
        self._open: dict[str, list[Any]] = {}
        self._stubs: dict[str, Any] = {name: AgentStub(channel) for name, channel in reach.channels.items()}  # type: ignore[no-untyped-call]

    def check(self) -> None:
        """Asks every agent for its health; those that fail go to `missing`."""
        request = pb.HealthRequest()
        answers = self._ask("Health", dict.fromkeys(self._stubs, request))
        for host in self.inventory.host:
            if host.name not in answers:
                self.missing[host.name] = self._reach.missing[host.name]
                continue
            reply = answers[host.name]
            if isinstance(reply, str):
                self.missing[host.name] = f"agent does not answer ({reply})"
                continue
            if reply.protocol != PROTOCOL:
                self.missing[host.name] = (
                    f"agent {reply.version} speaks protocol {reply.protocol}, this controller {PROTOCOL}"
                )
                continue
            self.hosts.append(filled(host, reply))
            self.health[host.name] = reply
        known = {host.name: host for host in self.hosts}
        self.inventory = self.inventory.model_copy(
            update={"host": [known.get(host.name, host) for host in self.inventory.host]}
        )

    def enrol(self, budget: Budget) -> None:
        """Opens the session at every healthy agent under a fresh secret.

        Raises:
            BusyError: when an agent is held by another run.
            AgentError: when one refuses for another reason.
        """
        secret = secrets.token_bytes(32)
        peers = [
            pb.Peer(name=host.name, address=host.address, data_port=self.health[host.name].data_port)
            for host in self.hosts
        ]
        spend = pb.Budget(max_bytes=budget.max_bytes, max_seconds=budget.max_seconds)
        requests = {
            host.name: pb.EnrolRequest(run_id=self.run_id, secret=secret, self=host.name, peers=peers, budget=spend)
            for host in self.hosts
        }
        refusals = {name: reply for name, reply in self._ask("Enrol", requests).items() if isinstance(reply, str)}
        if refusals:
            name, reason = next(iter(refusals.items()))
            refusal = f"agent on {name} refuses the run: {reason}"
            raise BusyError(refusal, hint="wait for its end") if "held by" in reason else AgentError(refusal)

    def release(self) -> None:
        """Ends the session everywhere. An agent that does not answer frees itself when its budget ends."""
        request = pb.ReleaseRequest(run_id=self.run_id)
        self._ask("Release", dict.fromkeys(self.health, request))

    def drop(self, host: str, reason: str) -> None:
        """Goes on without a host that has vanished: no other waits for it any more. Returns at once.

        Its own part of what is under way ends too. An agent too old to know of this waits its full deadlines.

        Args:
            host: its name.
            reason: why, in one line.
        """
        if host in self.lost:
            return
        self.lost[host] = reason
        self.missing.pop(host, None)
        self.hosts = [each for each in self.hosts if each.name != host]
        request = pb.DropRequest(run_id=self.run_id, peer=host, reason=reason)
        requests = {each.name: request for each in self.hosts}
        calls = list(self._open.get(host, ()))

        def tell() -> None:
            for call in calls:
                call.cancel()
            self._answers("Drop", requests, CALL_DEADLINE_S)

        threading.Thread(target=tell, daemon=True, name=f"drop-{host}").start()

    def measure(
        self, requests: Mapping[str, pb.MeasureRequest], *, deadline_s: float
    ) -> Iterator[tuple[str, pb.ProbeReply | AgentError]]:
        """Hands every agent its whole part of a schedule and yields the answers as they come.

        Args:
            requests: host to its part.
            deadline_s: when the last answer must be there.

        Yields:
            (host, reply); an `AgentError` is the last of a host whose stream broke.
        """
        return self._streams("Measure", requests, deadline_s)

    def replay(
        self, requests: Mapping[str, pb.ReplayRequest], *, deadline_s: float
    ) -> Iterator[tuple[str, pb.ReplayReply | AgentError]]:
        """Hands every agent its transfers of one phase and yields its events. See `measure`."""
        return self._streams("Replay", requests, deadline_s)

    def start(self, names: Iterable[str], replay_id: str) -> None:
        """Lets a connected replay go, at all its agents at once.

        Raises:
            AgentError: when one does not answer.
        """
        request = pb.StartRequest(run_id=self.run_id, replay_id=replay_id)
        for name, reply in self._ask("Start", dict.fromkeys(names, request)).items():
            if isinstance(reply, str):
                raise AgentError(f"agent on {name} does not start: {reply}")

    def _ask(self, method: str, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Calls one short method at several agents at once; gives each one's reply, or in words why there is none."""
        return aside(lambda: self._answers(method, requests, CALL_DEADLINE_S))

    def _answers(self, method: str, requests: Mapping[str, Any], deadline_s: float) -> dict[str, Any]:
        calls = {
            name: getattr(self._stubs[name], method).future(
                request, timeout=min(deadline_s, LOST_DEADLINE_S) if name in self.lost else deadline_s
            )
            for name, request in requests.items()
        }
        answers: dict[str, Any] = {}
        for name, call in calls.items():
            try:
                answers[name] = call.result()
            except grpc.RpcError as error:
                answers[name] = self._reach.why(name, error)
        return answers

    def _streams(self, method: str, requests: Mapping[str, Any], deadline_s: float) -> Iterator[tuple[str, Any]]:
        """Merges one stream an agent into one iterator, in order of arrival."""
        arrivals: queue.SimpleQueue[tuple[str, Any, bool]] = queue.SimpleQueue()
        calls: dict[str, Any] = {}
        gone: dict[str, str] = {}

        def drain(name: str) -> None:
            try:
                for reply in calls[name]:
                    arrivals.put((name, reply, False))
            except grpc.RpcError as error:
                reason = self._reach.why(name, error)
                if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.UNAVAILABLE:
                    gone[name] = reason
                arrivals.put((name, AgentError(f"agent on {name}: {reason}"), False))
            finally:
                arrivals.put((name, None, True))

        def begin() -> None:
            for name, request in requests.items():
                calls[name] = getattr(self._stubs[name], method)(request, timeout=deadline_s)
                self._open.setdefault(name, []).append(calls[name])
            for name in requests:
                threading.Thread(target=drain, args=(name,), daemon=True, name=f"stream-{name}").start()

        def cancel() -> None:
            for call in list(calls.values()):
                call.cancel()

        open_streams = len(requests)
        try:
            aside(begin)
            while open_streams:
                name, reply, ended = arrivals.get()
                if ended:
                    open_streams -= 1
                else:
                    yield name, reply
        finally:
            aside(cancel)
            for name, call in list(calls.items()):
                if call in self._open.get(name, ()):
                    self._open[name].remove(call)
            gone = {name: reason for name, reason in list(gone.items()) if name not in self.lost}
            # What comes next goes without them: a dead agent costs each of its peers the time they wait for it.
            self.missing |= gone
            self.hosts = [host for host in self.hosts if host.name not in gone]


@contextmanager
def enrolled(
    inventory: Inventory, budget: Budget, *, run_id: str | None = None, reach: Reach | None = None
) -> Iterator[Fleet]:
    """Holds the agents of an inventory for one run.

    Args:
        inventory: the hosts.
        budget: what each agent may spend at most.
        run_id: of a run that was killed, to take its agents over; None = a new run.
        reach: roads to them that stay open afterwards; None = they are opened for this run alone.

    Yields:
        a `Fleet` in which at least one agent is enrolled; `missing` tells who is not.

    Raises:
        BusyError: when one is held by another run, and still is after `PATIENCE_S`.
        AgentError: when no agent answers.
    """
    with reaching(inventory) if reach is None else nullcontext(reach) as roads:
        fleet = Fleet(inventory, roads, run_id)
        fleet.check()
        if not fleet.hosts:
            name, reason = next(iter(fleet.missing.items()))
            raise AgentError(f"none of {len(fleet.missing)} agents can be used; {name}: {reason}")
        try:
            _enrol_in_turn(fleet, budget)
            yield fleet
        finally:
            fleet.release()


def _enrol_in_turn(fleet: Fleet, budget: Budget) -> None:
    """Enrols all, when those that hold some let go of them; two that hold half each both let go."""
    end_s = time.monotonic() + PATIENCE_S
    pauses = random.Random(fleet.run_id)
    while True:
        try:
            fleet.enrol(budget)
            return
        except BusyError:
            fleet.release()
            if time.monotonic() > end_s:
                raise
            time.sleep(pauses.uniform(0.1, 0.9))


def filled(host: Host, health: pb.HealthReply) -> Host:
    """Completes a host by what its agent found, where the inventory says nothing.

    What an inventory states is what tasks may use and stays, an explicit 0 (= unknown) included.
    """
    found: dict[str, Any] = {}
    if "cpus" not in host.model_fields_set and 0 < health.cpus <= 1e6:
        found["cpus"] = health.cpus
    if "memory_bytes" not in host.model_fields_set and 0 < health.memory_bytes <= 1 << 60:
        found["memory_bytes"] = health.memory_bytes
    return host.model_copy(update=found) if found else host
