"""The agents of one run: checked, enrolled under one secret, and released at the end."""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, MutableSequence
from dataclasses import dataclass
from typing import Any

from gavotte.agents import agent_pb2 as pb
from gavotte.agents import quiet  # noqa: F401 - before `agent_pb2_grpc`, which loads gRPC
from gavotte.agents.addresses import addressed
from gavotte.agents.agent_pb2_grpc import AgentStub
from gavotte.agents.asking import CALL_DEADLINE_S
from gavotte.agents.callbacks import Pair, closed_paths, open_lines
from gavotte.agents.calls import aside
from gavotte.agents.choosing import choose
from gavotte.agents.letters import Correspondent
from gavotte.agents.neighbours import STANDING, Neighbour, neighbours, this_user
from gavotte.agents.orders import Orders
from gavotte.agents.reach import Reach
from gavotte.errors import AgentError, BusyError
from gavotte.formats.inventory import Host, Inventory

logger = logging.getLogger(__name__)

PROTOCOL = 13
"""Protocol version. It must equal the agent's, and grows with every incompatible change of `proto/`."""

BACK_S = 0.5
"""Longest time in which an agent that has disappeared may answer that it is back."""

LOOK_AGAIN_S = 5.0
"""Time to wait before agents that did not answer are asked again."""

LEAST_LEASE_S = 6.0
"""Shortest lease: time that agents wait for a sign of their controller before they release its run."""

MOST_LEASE_S = 20.0
"""Longest lease."""

LEASE_AGENTS_S = 6e-3
"""A lease is at least this long for each agent: the time in which a busy controller enrols one."""

LEASE_GREETINGS = 40.0
"""A lease is longer than `LEAST_LEASE_S` by this many times the greeting of the slowest agent."""

SILENT_S = 10.0
"""Least time without an answer to any renewal after which an agent is dropped."""

SHOWN = 3
"""Number of hosts that a warning names."""

INTRODUCE_DEADLINE_S = 60.0
"""Deadline for telling agents the addresses of all hosts: 400 kB for 10,000."""

LATE_S = 1.0
"""If a renewal begins or ends this much later than planned, this machine is short of processors. Agents that did not
answer may have done so."""

RENEWALS = 3
"""Renewals within one lease. An agent that misses this many in a row has released the run, or will when it wakes."""


def lease_of(greeting_s: float, agents: int = 1) -> float:
    """Return the lease of a run in seconds.

    Renewals of far agents, and those of a controller that is short of processors, are late or sent again. Agents of a
    killed controller are free when the lease has ended, so near ones get a short lease.

    Args:
        greeting_s: time until the slowest agent answered the run's first call, which opens its connection.
        agents: number of agents.
    """
    return max(min(MOST_LEASE_S, LEAST_LEASE_S + LEASE_GREETINGS * greeting_s), LEASE_AGENTS_S * agents)


@dataclass(frozen=True)
class Budget:
    """Most that one agent may spend in the run.

    Attributes:
        max_bytes: payload bytes that it may send.
        max_seconds: how long the run may hold it.
    """

    max_bytes: int
    max_seconds: float


class Fleet(Orders):
    """Enrolled agents by host name.

    Attributes:
        run_id: names the run at every agent.
        inventory: all hosts, with IP addresses for DNS names. Agents supply the cpus and memory that it leaves out.
        hosts: the inventory's hosts whose agents answer, in its order.
        health: what each agent reported about itself.
        missing: host to reason, for hosts that did not answer or have disappeared since.
        lost: host to reason, for hosts that were dropped.
        lines: (source, target) of paths on which the target makes the connections that the source needs.
        walls: (source, target) of paths on which neither host accepts connections from the other.
        warnings: what may slow its transfers down, one line each.
        silent: hosts whose agents did not answer the last `renew`. After `RENEWALS` in a row, and `SILENT_S`, they are
            dropped.
        lease_s: the run's lease, which follows the time of the first answers.
    """

    def __init__(
        self, inventory: Inventory, reach: Reach, run_id: str | None = None, *, purpose: str = "", shared: bool = False
    ) -> None:
        super().__init__(reach, run_id or secrets.token_hex(8))
        self._purpose = purpose
        self._mode = pb.MODE_SHARED if shared else pb.MODE_EXCLUSIVE
        self.inventory, unresolved = addressed(inventory)
        self.missing |= unresolved
        self.health: dict[str, pb.HealthReply] = {}
        self._enrolled: dict[str, pb.EnrolRequest] = {}
        self._peers: dict[str, pb.Peer] = {}
        self.warnings: list[str] = []
        self.silent: set[str] = set()
        self._unanswered: Counter[str] = Counter()
        self._look_from_s = -math.inf
        self._renew_at_s = math.inf
        self._attended: dict[str, Any] = {}
        self._admitting = threading.Lock()
        self._chosen: dict[tuple[str, str], str] = {}
        self.lines: set[Pair] = set()
        self.walls: set[Pair] = set()
        self._opens = False
        self.lease_s = lease_of(0.0)

    @property
    def renewal_s(self) -> float:
        """Time between two renewals of the lease."""
        return self.lease_s / RENEWALS

    @property
    def away(self) -> dict[str, str]:
        """Host to reason, for all hosts that do not take part now."""
        return self.missing | self.lost

    def check(self) -> None:
        """Ask every agent for its health. Agents that fail go to `missing`."""
        request = pb.HealthRequest()
        begin_s = time.monotonic()
        answers = self._ask("Health", dict.fromkeys(self._stubs.keys() - self.missing.keys(), request))
        ended_s = time.monotonic() - begin_s
        here = [name for name, reply in answers.items() if not isinstance(reply, AgentError)]
        self.lease_s = lease_of(max((self._took_s.get(name, ended_s) for name in here), default=0.0), len(here))
        for host in self.inventory.host:
            if host.name in self.missing:
                continue
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
            logger.info("%s: continuing without this host: %s", name, reason)
        known = {host.name: host for host in self.hosts}
        self.inventory = self.inventory.model_copy(
            update={"host": [known.get(host.name, host) for host in self.inventory.host]}
        )

    def enrol(self, budget: Budget, *, take_over: bool = False) -> None:
        """Enrol every healthy agent under a fresh secret, until the lease ends (see `renew`).

        An agent that refuses for a reason of its own, or does not answer, goes to `missing`.

        Args:
            budget: what each agent may spend.
            take_over: end another exclusive hold of the same user.

        Raises:
            BusyError: when another run holds an agent exclusively and this run needs it exclusively too.
            AgentError: when no agent takes part.
        """
        secret = secrets.token_bytes(32)
        names = [host.name for host in self.hosts]
        self._forwarding.begin(names)
        self._peers = {host.name: _peer(host, self.health[host.name]) for host in self.hosts}
        self._forwarding.correspondents = {name: Correspondent() for name in names if self._forwarding.forwarders}
        spend = pb.Budget(max_bytes=budget.max_bytes, max_seconds=budget.max_seconds)
        requests = {
            host.name: pb.EnrolRequest(
                run_id=self.run_id,
                secret=secret,
                self=host.name,
                peers=self._first_peers(host.name),
                letter_key=self._letter_key(host.name),
                budget=spend,
                mode=self._mode,
                purpose=self._purpose,
                user=this_user(),
                lease_s=self.lease_s,
                take_over=take_over,
            )
            for host in self.hosts
        }
        logger.info(
            "run %s: enrolling %d agents, each for up to %d bytes and %.0f s, with a lease of %.1f s",
            self.run_id,
            len(requests),
            budget.max_bytes,
            budget.max_seconds,
            self.lease_s,
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
                    lease_s=reply.lease_s,
                )
        self._leave_out(refusals)
        if not self.hosts:
            name, reply = next(iter(refusals.items()))
            raise AgentError(f"the agent on {name} refuses the run: {reply}", failure=reply.failure)
        # An attempt that was refused has released agents that other runs held.
        self.taken_over.clear()
        self._enrolled = requests
        if self._forwarding.forwarders:
            here = {host.name for host in self.hosts}
            self._leave_out(self._introduced(here.intersection(self._forwarding.forwarders)))
            # To introduce thousands of agents to each other may take longer than a lease.
            aside(self.attend)
            self._leave_out(self._introduced(here.difference(self._forwarding.forwarders)))
            # A connection takes 50 kB, and its agent pings it every 5 s.
            aside(lambda: self._stubs.rest(here.difference(self._forwarding.forwarders)))
        self._chosen = choose(self, self.hosts)

    def _leave_out(self, refusals: Mapping[str, AgentError]) -> None:
        """Continue without agents that do not take part."""
        for name, reply in refusals.items():
            self.missing[name] = f"its agent does not take part ({reply})"
        self.hosts = [host for host in self.hosts if host.name not in refusals]

    def _first_peers(self, name: str) -> list[pb.Peer]:
        """Return the peers with which an agent is enrolled: all, or those from which letters come to it."""
        if not self._forwarding.forwarders:
            here = {host.name for host in self.hosts} | {name}
            return [peer for each, peer in self._peers.items() if each in here]
        first = dict.fromkeys([name, *self._forwarding.near(name)])
        return [self._peers[each] for each in first if each in self._peers]

    def _letter_key(self, name: str) -> bytes:
        own = self._forwarding.correspondents.get(name)
        return own.key if own else b""

    def _introduced(self, names: Iterable[str]) -> dict[str, AgentError]:
        """Let agents know all peers, if they were enrolled with few. Return the errors of those that do not."""
        asked = dict.fromkeys(names, pb.IntroduceRequest(run_id=self.run_id)) if self._forwarding.forwarders else {}
        peers = pb.IntroduceRequest(peers=self._peers.values()).SerializeToString() if asked else b""
        replies = aside(lambda: self._answers("Introduce", asked, INTRODUCE_DEADLINE_S, peers))
        return {name: reply for name, reply in replies.items() if isinstance(reply, AgentError)}

    def move(self, target: str, address: str, sources: Iterable[str]) -> None:
        """Let some hosts use another address of a host from now on."""
        host = next(each for each in self.hosts if each.name == target)
        peer = _peer(host, self.health[target])
        peer.address = address
        request = pb.ReadmitRequest(run_id=self.run_id, peer=peer)
        for source in sources:
            _replace(self._enrolled[source].peers, peer)
        self._ask("Readmit", dict.fromkeys(sources, request))

    def address(self, source: str, target: str) -> str:
        """Return the IP address at which one enrolled host reaches another."""
        host = next(each for each in self.inventory.host if each.name == target)
        return self._chosen.get((source, target), host.address)

    def open_lines(self) -> None:
        """Let targets make the connections of paths on which the source can make none, until the run ends."""
        self._opens = True
        closed = closed_paths(self, [host.name for host in self.hosts])
        self.walls = set(closed.both_ways)
        self.lines = open_lines(self, closed.one_way)

    def _open_lines_of(self, name: str) -> None:
        """Do the same for a host that takes part from now on."""
        closed = closed_paths(self, [host.name for host in self.hosts], [name])
        self.walls = {pair for pair in self.walls if name not in pair} | closed.both_ways
        # In a large run, not every host that needs lines has been greeted by this one.
        more = {(name, target) for _, target in self.lines if target != name} - self.walls
        self.lines = {pair for pair in self.lines if name not in pair} | open_lines(self, closed.one_way | more)

    def wall(self, source: str, target: str) -> str:
        """Return why no connection can be made between two hosts, and the remedy; empty if one may be."""
        if (source, target) not in self.walls:
            return ""
        ports = [f"port {self.health[name].data_port}/tcp on {name}" for name in (target, source)]
        return (
            f"{target} is up, but accepts no TCP connection from {source}, nor {source} from {target}: "
            f"open {' or '.join(ports)}"
        )

    def invite(self, host: Host) -> None:
        """Add a host to the inventory, so that `admit` can enrol it."""
        if host.name not in {each.name for each in self.inventory.host}:
            self.inventory = self.inventory.model_copy(update={"host": [*self.inventory.host, host]})
            self._reach.add(host)

    def admit(self, name: str) -> str:
        """Enrol a host that was missing at the enrolment, or whose agent disappeared later, over a new connection.

        The host gets a whole budget, and the other agents learn of it. Any thread may call this.

        Returns:
            why it cannot take part; empty when it does.
        """
        if name in self._distrusted:
            return "its agent reported something impossible"
        self.inventory, unresolved = addressed(self.inventory)
        if name in unresolved:
            return unresolved[name]
        try:
            self._stubs[name] = AgentStub(self._reach.again(name))  # type: ignore[no-untyped-call]
        except AgentError as error:
            return error.message
        health = self._ask("Health", {name: pb.HealthRequest()})[name]
        if reason := unusable(health):
            return reason
        host = next(host for host in self.inventory.host if host.name == name)
        me = _peer(host, health)
        # When two hosts join at the same time, the second must learn of the first.
        with self._admitting:
            request = pb.EnrolRequest()
            request.CopyFrom(next(iter(self._enrolled.values())))
            # The addresses that another host has found need not be those that this one reaches.
            self._peers[name] = me
            request.self = name
            del request.peers[:]
            request.peers.extend(self._first_peers(name))
            refusal = self._enrol_one(name, request)
            if refusal is not None:
                return f"its agent does not take part ({refusal})"
            self._enrolled[name] = request
            if not self._forwarding.forwarders:
                for other in self._enrolled.values():
                    if all(peer.name != name for peer in other.peers):
                        other.peers.append(me)
            self._welcome(host, health, me)
        return ""

    def release(self) -> None:
        """Release all agents. An agent that does not answer frees itself when its lease ends."""
        logger.debug("run %s: releasing %d agents", self.run_id, len(self.health))
        request = pb.ReleaseRequest(run_id=self.run_id)
        forwarders = set(self._forwarding.forwarders)
        for names in (self.health.keys() - forwarders, self.health.keys() & forwarders):
            if names:
                self._ask("Release", dict.fromkeys(names, request))

    def renew(self) -> dict[str, Any]:
        """Renew the lease at all agents, and drop those that are silent. Call this every `renewal_s`.

        1. An agent whose work has reported something meanwhile is not silent.
        2. If this process got no processor for `LATE_S`, nothing follows from missing answers.

        Any thread may call it.
        """
        begin_s = time.monotonic()
        begin_late_s, self._renew_at_s = begin_s - self._renew_at_s, begin_s + self.renewal_s
        request = pb.RenewRequest(run_id=self.run_id)
        answers = self._answers("Renew", dict.fromkeys(self.health, request), self.renewal_s)
        late_s = max(begin_late_s, time.monotonic() - self._renew_at_s)
        self.silent = {
            name
            for name, reply in answers.items()
            if isinstance(reply, AgentError)
            and reply.failure != pb.FAILURE_NOT_ENROLLED
            and self._heard_s.get(name, -math.inf) < begin_s
        }
        if late_s > LATE_S:
            logger.info("run %s: renewed %.1f s late, since this machine is busy", self.run_id, late_s)
            return answers
        self._unanswered = Counter({name: self._unanswered[name] + 1 for name in self.silent})
        most = max(RENEWALS, math.ceil(SILENT_S / self.renewal_s))
        for name in sorted(name for name, times in self._unanswered.items() if times >= most):
            if name not in self.missing:
                self.drop(name, "it does not answer any more")
        return answers

    def attend(self) -> None:
        """Open a stream at each agent that keeps its lease while this process lives. Call it again after agents join.

        gRPC answers the agents' pings in threads of its own. A process that is too busy to renew in time, or that
        another thread blocks, therefore keeps its leases.
        """
        request = pb.AttendRequest(run_id=self.run_id)
        away = self.away
        calls = {name: self._attended.get(name) for name in self.health if name not in away}
        names = [name for name, call in calls.items() if call is None or call.done()]
        forwarded = self._forwarding.sort("Attend", names, away)
        for name in set(names).difference(*forwarded.values()):
            self._attended[name] = self._stubs[name].Attend(request)
        for by, some in forwarded.items():
            # No thread reads the stream. It has no messages, and waiting for some takes 1 ms of each second.
            stream = self._forwarding.send(by, self._forwarding.letters("Attend", dict.fromkeys(some, request)))
            self._attended |= dict.fromkeys(some, stream)

    def is_alone(self) -> bool:
        """Return whether fewer than two agents are left, as far as the last `renew` knows."""
        return len({host.name for host in self.hosts} - self.silent) < 2

    def rejoin(self) -> list[str]:
        """Enrol again the hosts that disappeared and whose agents, usually new ones, do not know the run.

        Such an agent gets what is left of the host's budget, and the other agents learn of it. An agent that still
        knows the run was dropped for another reason, and stays dropped.

        Returns:
            their names.
        """
        # Both runs would wait for each other if this one enrolled again where the other lets go for a moment.
        away = self.away.keys() & self._enrolled.keys() - self._distrusted - self.taken_over.keys()
        began_s = time.monotonic()
        if not away or began_s < self._look_from_s:
            return []
        request = pb.RenewRequest(run_id=self.run_id)
        answers = aside(lambda: self._answers("Renew", dict.fromkeys(away, request), BACK_S))
        ended_s = time.monotonic()
        if ended_s - began_s >= BACK_S:
            # An unreachable host is silent, and would cost as much on each attempt.
            self._look_from_s = ended_s + LOOK_AGAIN_S
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
        self._peers[name].data_port = health.data_port
        if request.budget.max_bytes:
            request.budget.max_bytes = max(1, request.budget.max_bytes - self._sent.pop(name, 0))
        if self._enrol_one(name, request) is not None:
            return False
        self._welcome(next(host for host in self.inventory.host if host.name == name), health, me)
        return True

    def _enrol_one(self, name: str, request: pb.EnrolRequest) -> AgentError | None:
        """Enrol one more agent, or one again, under a key of its own. Return why it does not take part."""
        if self._forwarding.forwarders:
            own = self._forwarding.correspondents[name] = Correspondent()
            self._forwarding.trust(name)
            request.letter_key = own.key
        reply = self._ask("Enrol", {name: request})[name]
        if isinstance(reply, AgentError):
            return reply
        return self._introduced([name]).get(name)

    def _welcome(self, host: Host, health: pb.HealthReply, me: pb.Peer) -> None:
        """Announce to the other agents a host that takes part from now on."""
        request = pb.ReadmitRequest(run_id=self.run_id, peer=me)
        self._ask("Readmit", {other.name: request for other in self.hosts if other.name != host.name})
        self.health[host.name] = health
        self.missing.pop(host.name, None)
        self.lost.pop(host.name, None)
        here = {other.name for other in self.hosts} | {host.name}
        self.hosts = [other for other in self.inventory.host if other.name in here]
        # The announcement has replaced the addresses that the others had found.
        self._chosen = {pair: address for pair, address in self._chosen.items() if host.name not in pair}
        self._chosen |= choose(self, self.hosts, joining=host.name)
        if self._opens:
            self._open_lines_of(host.name)

    def status(self) -> dict[str, pb.StatusReply]:
        """Return what each agent that answers reports: who holds it, and what runs on it."""
        answers = self._ask("Status", dict.fromkeys(self.health, pb.StatusRequest(run_id=self.run_id)))
        return {name: reply for name, reply in answers.items() if not isinstance(reply, AgentError)}

    def logs(self, host: str, lines: int) -> list[str]:
        """Return the last lines that an agent logged, oldest first; for 0, all that it keeps.

        Raises:
            AgentError: when it does not answer.
        """
        reply = self._ask("Logs", {host: pb.LogsRequest(entries=lines)})[host]
        if isinstance(reply, AgentError):
            raise AgentError(f"agent on {host}: {reply}", failure=reply.failure)
        return list(reply.entries)

    def busy(self) -> list[Neighbour]:
        """Return other runs that move bytes between the hosts now."""
        return neighbours(
            (name, hold, job.kind)
            for name, reply in self.status().items()
            for hold in reply.holds
            if hold.run_id != self.run_id
            for job in hold.jobs
            if job.state == pb.JOB_STATE_RUNNING and job.kind != STANDING
        )

    def warn_of_quotas(self, consequence: str) -> None:
        """Log which agents a cgroup's quota allows less than one processor.

        Args:
            consequence: what they may do worse for that reason.
        """
        scarce = [f"{name} ({each.cpu_quota:g})" for name, each in self.health.items() if 0 < each.cpu_quota < 1]
        if scarce:
            more = f" and {len(scarce) - SHOWN} more" * (len(scarce) > SHOWN)
            names = ", ".join(scarce[:SHOWN]) + more
            self.warnings.append(
                f"{names}: a cgroup's quota allows the agent less than one processor, so {consequence}"
            )

    def beside(self) -> list[Neighbour]:
        """Return other runs that moved bytes between the hosts during this run."""
        return neighbours((name, each, each.kind) for name, reply in self.status().items() for each in reply.beside)

    def distrust(self, host: str, reason: str) -> None:
        """Drop a host whose agent reports something impossible. It is never enrolled again."""
        self._distrusted.add(host)
        self.drop(host, reason)

    def drop(self, host: str, reason: str) -> None:
        """Continue without a host that has vanished, so that no other host waits for it. Returns at once.

        The host's own part of running work ends too, even if it began after the host was dropped. An agent too old to
        know `Drop` waits its full deadlines.

        Args:
            host: its name.
            reason: why, in one line.
        """
        calls, mails = list(self._open.get(host, ())), list(self._mails)
        requests = {}
        if host not in self.lost:
            logger.info("%s: dropped: %s", host, reason)
            self.lost[host] = reason
            self.missing.pop(host, None)
            self.hosts = [each for each in self.hosts if each.name != host]
            request = pb.DropRequest(run_id=self.run_id, peer=host, reason=reason)
            requests = {each.name: request for each in self.hosts}
        elif not calls and not mails:
            return

        def tell() -> None:
            for call in calls:
                call.cancel()
            for mail in mails:
                mail.cut(host)
            self._answers("Drop", requests, CALL_DEADLINE_S)

        threading.Thread(target=tell, daemon=True, name=f"drop-{host}").start()


def _peer(host: Host, health: pb.HealthReply) -> pb.Peer:
    origins = [host.address, *host.addresses] if host.addresses else []
    return pb.Peer(name=host.name, address=host.address, data_port=health.data_port, origins=origins)


def _replace(peers: MutableSequence[pb.Peer], peer: pb.Peer) -> None:
    """Put a peer in the place of the one of its name, or at the end."""
    for own in peers:
        if own.name == peer.name:
            own.CopyFrom(peer)
            return
    peers.append(peer)


def unusable(reply: pb.HealthReply | AgentError) -> str:
    """Return why an agent that answered like this cannot take part; empty when it can."""
    if isinstance(reply, AgentError):
        return f"its agent does not answer ({reply})"
    if reply.protocol != PROTOCOL:
        return f"its agent {reply.version} speaks protocol {reply.protocol}, but this controller {PROTOCOL}"
    if not 0 < reply.data_port < 1 << 16:
        return f"its agent reports the impossible data port {reply.data_port}"
    return ""


def filled(host: Host, health: pb.HealthReply) -> Host:
    """Complete a host by what its agent reports, where the inventory says nothing.

    A value in the inventory says what tasks may use. It stays, even an explicit 0 (= unknown).
    """
    reported: dict[str, Any] = {}
    if "cpus" not in host.model_fields_set and 0 < health.cpus <= 1e6:
        reported["cpus"] = health.cpus
    if "memory_bytes" not in host.model_fields_set and 0 < health.memory_bytes <= 1 << 60:
        reported["memory_bytes"] = health.memory_bytes
    return host.model_copy(update=reported) if reported else host
