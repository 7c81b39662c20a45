"""The agents of one run: found healthy, enrolled under one secret, released at the end."""

from __future__ import annotations

import getpass
import logging
import math
import os
import queue
import secrets
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import grpc

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.agent_pb2_grpc import AgentStub
from gavotte.agents.calls import aside, failure_of, lease_left_s
from gavotte.agents.reach import Reach
from gavotte.agents.soundness import check_message
from gavotte.errors import AgentError, BusyError
from gavotte.formats.inventory import Host, Inventory

logger = logging.getLogger(__name__)

PROTOCOL = 4
"""Must equal the agent's: grows with every incompatible change of `proto/`."""

REPLAYING = "run "
"""Begins the purpose of a run that replays applications; their names follow."""

STANDING = "guarantee"
"""The kind of job that goes on until it is cleared: nobody waits for its end."""

LEASE_S = 10.0
"""How long agents wait for word of their controller before they let go of its run."""

CALL_DEADLINE_S = 10.0
"""For calls that only exchange a few bytes with one agent."""

LOST_DEADLINE_S = 2.0
"""The same for a host that was dropped or whose agent has gone."""


@dataclass(frozen=True)
class Budget:
    """What one agent may spend in the run.

    Attributes:
        max_bytes: payload bytes it may send.
        max_seconds: how long the run may hold it.
    """

    max_bytes: int
    max_seconds: float


@dataclass(frozen=True)
class Neighbour:
    """Another run that was busy on the same hosts.

    Attributes:
        run_id: its name.
        user: whose it is.
        purpose: what it is for.
        kind: of its job, as "transfer".
        hosts: where.
    """

    run_id: str
    user: str
    purpose: str
    kind: str
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        return f"run {self.run_id} ({introduced(self.purpose, self.user)}) on {', '.join(self.hosts)}"

    @property
    def deed(self) -> str:
        """What it did meanwhile: a guarantee need not have moved anything, but it limits."""
        return "whose guarantees stood meanwhile" if self.kind == STANDING else "which moved bytes meanwhile"

    @property
    def apps(self) -> tuple[str, ...]:
        """The applications that it replays, as its purpose tells."""
        return tuple(self.purpose.removeprefix(REPLAYING).split(", ")) if self.purpose.startswith(REPLAYING) else ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def introduced(purpose: str, user: str) -> str:
    """A run's purpose and user, as far as it tells."""
    return ", by ".join(filter(None, (purpose, user))) or "purpose unknown"


def neighbours(seen: Iterable[tuple[str, pb.HoldStatus | pb.Neighbour, str]]) -> list[Neighbour]:
    """Joins what was seen of each run at each host.

    Args:
        seen: host, run, kind of job.
    """
    hosts: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for host, run, kind in seen:
        where = hosts[run.run_id, run.user, run.purpose, kind]
        if host not in where:
            where.append(host)
    return [Neighbour(*run, tuple(names)) for run, names in sorted(hosts.items())]


def this_user() -> str:
    """Whose run it is, as agents are told."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


class Fleet:
    """Enrolled agents by host name.

    Attributes:
        run_id: names the run at every agent.
        inventory: all hosts; cpus and memory that it left out are what the agents found.
        hosts: the inventory's hosts whose agents answer, in its order.
        health: what each of them said of itself.
        missing: host to reason, for those that did not answer or have gone since.
        lost: host to reason, for those that were dropped.
        silent: hosts whose agents did not answer the last `renew`.
    """

    def __init__(
        self, inventory: Inventory, reach: Reach, run_id: str | None = None, *, purpose: str = "", shared: bool = False
    ) -> None:
        self.run_id = run_id or secrets.token_hex(8)
        self._purpose = purpose
        self._mode = pb.MODE_SHARED if shared else pb.MODE_EXCLUSIVE
        self.inventory = inventory
        self.hosts: list[Host] = []
        self.health: dict[str, pb.HealthReply] = {}
        self.missing: dict[str, str] = {}
        self.lost: dict[str, str] = {}
        self._reach = reach
        self._open: dict[str, list[Any]] = {}
        self._enrolled: dict[str, pb.EnrolRequest] = {}
        self._sent: dict[str, int] = defaultdict(int)
        self.silent: set[str] = set()
        self._distrusted: set[str] = set()
        self._admitting = threading.Lock()
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
            reason = unusable(reply)
            if reason:
                self.missing[host.name] = reason
                continue
            self.hosts.append(filled(host, reply))
            self.health[host.name] = reply
        for name, reason in self.missing.items():
            logger.info("%s: goes without it: %s", name, reason)
        known = {host.name: host for host in self.hosts}
        self.inventory = self.inventory.model_copy(
            update={"host": [known.get(host.name, host) for host in self.inventory.host]}
        )

    def enrol(self, budget: Budget, *, take_over: bool = False) -> None:
        """Takes hold of every healthy agent under a fresh secret, until the lease ends (see `renew`).

        One that refuses for its own reason, or does not answer, goes to `missing`.

        Args:
            budget: what each agent may spend.
            take_over: end another exclusive hold of the same user.

        Raises:
            BusyError: when another run holds an agent exclusively, as this one wants to.
            AgentError: when no agent takes part.
        """
        secret = secrets.token_bytes(32)
        peers = [
            pb.Peer(name=host.name, address=host.address, data_port=self.health[host.name].data_port)
            for host in self.hosts
        ]
        spend = pb.Budget(max_bytes=budget.max_bytes, max_seconds=budget.max_seconds)
        requests = {
            host.name: pb.EnrolRequest(
                run_id=self.run_id,
                secret=secret,
                self=host.name,
                peers=peers,
                budget=spend,
                mode=self._mode,
                purpose=self._purpose,
                user=this_user(),
                lease_s=LEASE_S,
                take_over=take_over,
            )
            for host in self.hosts
        }
        logger.info(
            "run %s: enrols %d agents, each for up to %d bytes and %.0f s",
            self.run_id,
            len(requests),
            budget.max_bytes,
            budget.max_seconds,
        )
        refusals = {
            name: reply for name, reply in self._ask("Enrol", requests).items() if isinstance(reply, AgentError)
        }
        for name, reply in refusals.items():
            if isinstance(reply, BusyError):
                raise BusyError(
                    f"the agent on {name} refuses the run: {reply}",
                    hint="wait until it has ended; --take-over ends a run of your own",
                    failure=reply.failure,
                    lease_left_s=reply.lease_left_s,
                )
        for name, reply in refusals.items():
            self.missing[name] = f"its agent does not take part ({reply})"
            self.hosts = [host for host in self.hosts if host.name != name]
        if not self.hosts:
            name, reply = next(iter(refusals.items()))
            raise AgentError(f"the agent on {name} refuses the run: {reply}", failure=reply.failure)
        self._enrolled = requests

    def admit(self, name: str) -> str:
        """Takes in a host that was not there at the enrolment, or whose agent has gone since: by a new road to it.

        It gets a whole budget; the others are told of it. To be called in any thread.

        Returns:
            why it cannot take part; empty when it does.
        """
        if name in self._distrusted:
            return "its agent said what cannot be"
        try:
            self._stubs[name] = AgentStub(self._reach.again(name))  # type: ignore[no-untyped-call]
        except AgentError as error:
            return error.message
        health = self._ask("Health", {name: pb.HealthRequest()})[name]
        if reason := unusable(health):
            return reason
        host = next(host for host in self.inventory.host if host.name == name)
        me = pb.Peer(name=name, address=host.address, data_port=health.data_port)
        # Of two that come at once, the second must hear of the first.
        with self._admitting:
            request = pb.EnrolRequest()
            request.CopyFrom(next(iter(self._enrolled.values())))
            peers = [*(peer for peer in request.peers if peer.name != name), me]
            request.self = name
            del request.peers[:]
            request.peers.extend(peers)
            refusal = self._ask("Enrol", {name: request})[name]
            if isinstance(refusal, AgentError):
                return f"its agent does not take part ({refusal})"
            self._enrolled[name] = request
            for other in self._enrolled.values():
                if all(peer.name != name for peer in other.peers):
                    other.peers.append(me)
            self._welcome(host, health, me)
        return ""

    def release(self) -> None:
        """Lets go of all agents. One that does not answer frees itself when its lease ends."""
        logger.debug("run %s: releases %d agents", self.run_id, len(self.health))
        request = pb.ReleaseRequest(run_id=self.run_id)
        self._ask("Release", dict.fromkeys(self.health, request))

    def renew(self) -> dict[str, Any]:
        """Prolongs the lease at all agents. To be called every third of `LEASE_S`, in any thread."""
        request = pb.RenewRequest(run_id=self.run_id)
        answers = self._answers("Renew", dict.fromkeys(self.health, request), LEASE_S / 3)
        self.silent = {
            name
            for name, reply in answers.items()
            if isinstance(reply, AgentError) and reply.failure != pb.FAILURE_NOT_ENROLLED
        }
        return answers

    def is_alone(self) -> bool:
        """Whether fewer than two agents are left, as far as the last `renew` knows."""
        return len({host.name for host in self.hosts} - self.silent) < 2

    def rejoin(self) -> list[str]:
        """Takes in again hosts that went and whose agents, new ones as a rule, know nothing of the run.

        Such an agent gets what is left of the host's budget, and the others are told of it. One that still knows the
        run was dropped for another reason, and stays so.

        Returns:
            their names.
        """
        away = (self.missing.keys() | self.lost.keys()) & self._enrolled.keys() - self._distrusted
        if not away:
            return []
        answers = aside(self.renew)
        back = []
        for name in sorted(away):
            reply = answers[name]
            if isinstance(reply, AgentError) and reply.failure == pb.FAILURE_NOT_ENROLLED and self._enrol_again(name):
                logger.warning("%s is back and takes part again", name)
                back.append(name)
        return back

    def _enrol_again(self, name: str) -> bool:
        health = self._ask("Health", {name: pb.HealthRequest()})[name]
        if isinstance(health, AgentError) or health.protocol != PROTOCOL:
            return False
        request = self._enrolled[name]
        me = next(peer for peer in request.peers if peer.name == name)
        me.data_port = health.data_port
        if request.budget.max_bytes:
            request.budget.max_bytes = max(1, request.budget.max_bytes - self._sent.pop(name, 0))
        if isinstance(self._ask("Enrol", {name: request})[name], AgentError):
            return False
        self._welcome(next(host for host in self.inventory.host if host.name == name), health, me)
        return True

    def _welcome(self, host: Host, health: pb.HealthReply, me: pb.Peer) -> None:
        """Tells the others of a host that takes part from now on."""
        told = pb.ReadmitRequest(run_id=self.run_id, peer=me)
        self._ask("Readmit", {other.name: told for other in self.hosts if other.name != host.name})
        self.health[host.name] = health
        self.missing.pop(host.name, None)
        self.lost.pop(host.name, None)
        here = {other.name for other in self.hosts} | {host.name}
        self.hosts = [other for other in self.inventory.host if other.name in here]

    def status(self) -> dict[str, pb.StatusReply]:
        """Who holds each agent that answers, and what runs on it."""
        answers = self._ask("Status", dict.fromkeys(self.health, pb.StatusRequest(run_id=self.run_id)))
        return {name: reply for name, reply in answers.items() if not isinstance(reply, AgentError)}

    def logs(self, host: str, lines: int) -> list[str]:
        """The last lines that an agent logged, oldest first; all that it keeps for 0.

        Raises:
            AgentError: when it does not answer.
        """
        reply = self._ask("Logs", {host: pb.LogsRequest(entries=lines)})[host]
        if isinstance(reply, AgentError):
            raise AgentError(f"agent on {host}: {reply}", failure=reply.failure)
        return list(reply.entries)

    def busy(self) -> list[Neighbour]:
        """Other runs that move bytes between the hosts now."""
        return neighbours(
            (name, hold, job.kind)
            for name, reply in self.status().items()
            for hold in reply.holds
            if hold.run_id != self.run_id
            for job in hold.jobs
            if job.state == pb.JOB_STATE_RUNNING and job.kind != STANDING
        )

    def beside(self) -> list[Neighbour]:
        """Other runs that moved bytes between the hosts while this one did."""
        return neighbours((name, each, each.kind) for name, reply in self.status().items() for each in reply.beside)

    def distrust(self, host: str, reason: str) -> None:
        """Drops a host whose agent says what cannot be; it is not taken in again."""
        self._distrusted.add(host)
        self.drop(host, reason)

    def drop(self, host: str, reason: str) -> None:
        """Goes on without a host that has vanished: no other waits for it any more. Returns at once.

        Its own part of what is under way ends too. An agent too old to know of this waits its full deadlines.

        Args:
            host: its name.
            reason: why, in one line.
        """
        if host in self.lost:
            return
        logger.info("%s: dropped: %s", host, reason)
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
        self, requests: Mapping[str, pb.MeasureRequest], *, deadline_s: float, silence_s: float
    ) -> Iterator[tuple[str, pb.ProbeReply | AgentError]]:
        """Hands every agent its whole part of a schedule and yields the answers as they come.

        Args:
            requests: host to its part.
            deadline_s: when the last answer must be there.
            silence_s: how long all that have not ended may say nothing before they are given up.

        Yields:
            (host, reply); an `AgentError` is the last of a host whose stream broke.
        """
        return self._streams("Measure", requests, deadline_s, lambda: silence_s)

    def replay(
        self, requests: Mapping[str, pb.ReplayRequest], *, deadline_s: float, silence_s: Callable[[], float]
    ) -> Iterator[tuple[str, pb.ReplayReply | AgentError]]:
        """Hands every agent its transfers of one phase and yields its events. See `measure`."""
        return self._streams("Replay", requests, deadline_s, silence_s)

    def watch(
        self, requests: Mapping[str, pb.WatchRequest], *, deadline_s: float, silence_s: Callable[[], float]
    ) -> Iterator[tuple[str, pb.WatchReply | AgentError]]:
        """Has agents watch their hosts' sockets and yields what they tell. See `measure`."""
        return self._streams("Watch", requests, deadline_s, silence_s)

    def manifest(self, host: str, path: str, *, block_bytes: int = 0, deadline_s: float) -> pb.ManifestReply:
        """Has an agent read a file and tell how it is cut into blocks.

        Args:
            host: where the file lies.
            path: absolute.
            block_bytes: of each block; 0 = as suits the file.
            deadline_s: how long reading may take.

        Raises:
            AgentError: when it cannot.
        """
        request = pb.ManifestRequest(run_id=self.run_id, path=path, block_bytes=block_bytes)
        reply: pb.ManifestReply | AgentError = aside(
            lambda: self._answers("Manifest", {host: request}, deadline_s)[host]
        )
        if isinstance(reply, AgentError):
            raise AgentError(f"{host}: {reply}", failure=reply.failure)
        return reply

    def broadcast(
        self,
        requests: Mapping[str, pb.BroadcastRequest],
        *,
        deadline_s: float,
        silence_s: Callable[[], float],
        joining: Callable[[], Mapping[str, pb.BroadcastRequest]],
    ) -> Iterator[tuple[str, pb.BroadcastReply | AgentError]]:
        """Has agents take part in a broadcast and yields what they say. See `measure`.

        `joining` is asked whenever an agent has said something: who else takes part from now on.
        """
        return self._streams("Broadcast", requests, deadline_s, silence_s, joining)

    def splice(self, requests: Mapping[str, pb.SpliceRequest]) -> dict[str, AgentError]:
        """Says anew from whom hosts have their blocks; gives those that did not hear."""
        replies = self._ask("Splice", requests)
        return {name: reply for name, reply in replies.items() if isinstance(reply, AgentError)}

    def start(self, names: Iterable[str], replay_id: str) -> None:
        """Lets a connected replay, or a broadcast, go: at all its agents at once.

        Raises:
            AgentError: when one does not answer.
        """
        request = pb.StartRequest(run_id=self.run_id, replay_id=replay_id)
        for name, reply in self._ask("Start", dict.fromkeys(names, request)).items():
            if isinstance(reply, AgentError):
                raise AgentError(f"the agent on {name} does not start: {reply}", failure=reply.failure)

    def pace(self, replay_id: str, paces: Mapping[str, Mapping[int, float]]) -> None:
        """Changes the paces of transfers that run and began with one; those that have ended are passed over.

        Args:
            replay_id: whose transfers.
            paces: sending host to transfer to bit/s of TCP payload; infinite = as TCP goes, 0 = it waits.
        """
        requests = {
            host: pb.PaceRequest(
                run_id=self.run_id,
                replay_id=replay_id,
                ids=list(own),
                paces_bps=[pace_word(pace_bps) for pace_bps in own.values()],
            )
            for host, own in paces.items()
        }
        for host, reply in self._ask("Pace", requests).items():
            if isinstance(reply, AgentError):
                # Its replay has ended, or its stream tells what became of it.
                logger.debug("%s: keeps its paces: %s", host, reply)

    def guard(self, requests: Mapping[str, pb.GuardRequest]) -> dict[str, pb.GuardReply | AgentError]:
        """Has agents keep guarantees from now on, without this controller; gives replies, or errors."""
        return self._ask("Guard", requests)

    def guarded(self) -> dict[str, pb.GuardedReply | AgentError]:
        """How each agent that answers keeps its guarantees."""
        return self._ask("Guarded", dict.fromkeys(self.health, pb.GuardedRequest()))

    def unguard(self) -> dict[str, pb.UnguardReply | AgentError]:
        """Ends the guarantees of every agent that answers."""
        return self._ask("Unguard", dict.fromkeys(self.health, pb.UnguardRequest()))

    def _ask(self, method: str, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Calls one short method at several agents at once; gives each one's reply, or why there is none."""
        return aside(lambda: self._answers(method, requests, CALL_DEADLINE_S))

    def _answers(self, method: str, requests: Mapping[str, Any], deadline_s: float) -> dict[str, Any]:
        gone = self.lost.keys() | self.missing.keys()
        calls = {
            name: getattr(self._stubs[name], method).future(
                request, timeout=min(deadline_s, LOST_DEADLINE_S) if name in gone else deadline_s
            )
            for name, request in requests.items()
        }
        answers: dict[str, Any] = {}
        for name, call in calls.items():
            try:
                answers[name] = call.result()
                check_message(answers[name])
            except grpc.RpcError as error:
                answers[name] = self._error(name, error)
            except AgentError as error:
                answers[name] = error
        return answers

    def _error(self, name: str, error: grpc.RpcError) -> AgentError:
        why = self._reach.why(name, error)
        logger.debug("%s: a call failed: %s", name, why)
        failure = failure_of(error)
        if failure == pb.FAILURE_HELD:
            return BusyError(why, failure=failure, lease_left_s=lease_left_s(error))
        return AgentError(why, failure=failure)

    def _streams(
        self,
        method: str,
        requests: Mapping[str, Any],
        deadline_s: float,
        silence_s: Callable[[], float],
        joining: Callable[[], Mapping[str, Any]] = dict,
    ) -> Iterator[tuple[str, Any]]:
        """Merges one stream an agent into one iterator, in order of arrival."""
        arrivals: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        streams: list[tuple[str, Any]] = []
        gone: dict[str, str] = {}

        def drain(name: str, call: Any) -> None:
            try:
                for reply in call:
                    check_message(reply, deadline_s=deadline_s)
                    arrivals.put((name, reply, None))
            except AgentError as error:
                call.cancel()
                self._distrusted.add(name)
                arrivals.put((name, AgentError(f"agent on {name}: {error}"), None))
            except grpc.RpcError as error:
                why = self._error(name, error)
                if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.UNAVAILABLE:
                    gone[name] = why.message
                arrivals.put((name, AgentError(f"agent on {name}: {why}", failure=why.failure), None))
            finally:
                arrivals.put((name, None, call))

        def begin(wanted: Mapping[str, Any]) -> list[Any]:
            begun = []
            for name, request in wanted.items():
                call = getattr(self._stubs[name], method)(request, timeout=deadline_s)
                self._open.setdefault(name, []).append(call)
                begun.append((name, call))
            streams.extend(begun)
            for name, call in begun:
                threading.Thread(target=drain, args=(name, call), daemon=True, name=f"stream-{name}").start()
            return [call for _, call in begun]

        def cancel() -> None:
            for _, call in streams:
                call.cancel()

        logger.debug("run %s: %s at %d agents, at most %.0f s", self.run_id, method, len(requests), deadline_s)
        try:
            open_calls = aside(lambda: begin(requests))
            while open_calls:
                try:
                    name, reply, ended = arrivals.get(timeout=silence_s())
                except queue.Empty:
                    for name in sorted(name for name, call in streams if call in open_calls):
                        yield name, AgentError(f"agent on {name}: it fell silent", failure=pb.FAILURE_LATE)
                    return
                if ended is not None:
                    open_calls.remove(ended)
                else:
                    self._sent[name] += _bytes_sent(reply)
                    yield name, reply
                if joins := joining():
                    open_calls += aside(lambda joins=joins: begin(joins))  # type: ignore[misc]
                    for name in joins:
                        gone.pop(name, None)
        finally:
            aside(cancel)
            for name, call in streams:
                if call in self._open.get(name, ()):
                    self._open[name].remove(call)
            gone = {name: reason for name, reason in list(gone.items()) if name not in self.lost}
            # What comes next goes without them: a dead agent costs each of its peers the time they wait for it.
            self.missing |= gone
            self.hosts = [host for host in self.hosts if host.name not in gone]


def _bytes_sent(reply: Any) -> int:
    """What an event of a stream cost the agent's budget."""
    if isinstance(reply, pb.ProbeReply):
        return reply.bytes_sent
    return reply.done.bytes if isinstance(reply, pb.ReplayReply) else 0


def unusable(reply: pb.HealthReply | AgentError) -> str:
    """Why an agent that answered so cannot take part; empty when it can."""
    if isinstance(reply, AgentError):
        return f"its agent does not answer ({reply})"
    if reply.protocol != PROTOCOL:
        return f"its agent {reply.version} speaks protocol {reply.protocol}, but this controller {PROTOCOL}"
    if not 0 < reply.data_port < 1 << 16:
        return f"its agent says that its data port is {reply.data_port}"
    return ""


def pace_word(pace_bps: float) -> int:
    """A pace as the contract has it: infinite = 0, as TCP goes; 0 = 1, it waits."""
    return 0 if math.isinf(pace_bps) else 1 if pace_bps == 0 else max(2, round(pace_bps))


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
