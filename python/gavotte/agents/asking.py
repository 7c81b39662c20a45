"""Call all agents of a run at the same time: short calls, and streams of replies."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

from gavotte.agents import agent_pb2 as pb
from gavotte.agents import quiet  # noqa: F401 - before `agent_pb2_grpc`, which loads gRPC
from gavotte.agents.agent_pb2_grpc import AgentStub
from gavotte.agents.calls import aside, fact_s, failure_of
from gavotte.agents.forwarding import Forwarding
from gavotte.agents.letters import ForwardedError, Part
from gavotte.agents.mail import Lettered, Mail
from gavotte.agents.quiet import grpc
from gavotte.agents.reach import Reach
from gavotte.agents.soundness import check_message
from gavotte.errors import AgentError, BusyError
from gavotte.formats.inventory import Host

logger = logging.getLogger(__name__)

CALL_DEADLINE_S = 10.0
"""Deadline of a call that only exchanges a few bytes with one agent."""

LOST_DEADLINE_S = 2.0
"""Deadline of such a call to a host that was dropped or whose agent is gone."""


Arrival = tuple[str, Any, Any]
"""Host, reply or `AgentError`, and None; or host, None, and its stream, which has ended."""


class Asking:
    """Agents by host name, and the calls to them.

    Attributes:
        run_id: names the run at every agent.
        hosts: hosts whose agents answer.
        missing: host to reason, for hosts that did not answer or have disappeared since.
        lost: host to reason, for hosts that were dropped.
        taken_over: host to reason, for hosts whose agents another run has taken over.
    """

    def __init__(self, reach: Reach, run_id: str) -> None:
        self.run_id = run_id
        self.hosts: list[Host] = []
        self.missing: dict[str, str] = {}
        self.lost: dict[str, str] = {}
        self.taken_over: dict[str, str] = {}
        self._reach = reach
        self._open: dict[str, list[Any]] = {}
        self._mails: set[Mail] = set()
        self._sent: dict[str, int] = defaultdict(int)
        self._distrusted: set[str] = set()
        self._heard_s: dict[str, float] = {}
        self._took_s: dict[str, float] = {}
        self._stubs = _Stubs(reach)
        self._forwarding = Forwarding(run_id, self._stubs)

    def _ask(self, method: str, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Call one short method at several agents at once. Return each agent's reply or error."""
        return aside(lambda: self._answers(method, requests, CALL_DEADLINE_S))

    def interrupt(self) -> None:
        """Close all streams of the run's agents. Returns at once; any thread may call this."""
        calls = [call for own in list(self._open.values()) for call in list(own)]

        def close() -> None:
            for call in calls:
                call.cancel()

        threading.Thread(target=close, daemon=True, name="interrupt").start()

    def _answers(
        self, method: str, requests: Mapping[str, Any], deadline_s: float, common: bytes = b""
    ) -> dict[str, Any]:
        """Call one method at several agents at once.

        Args:
            method: the service's method.
            requests: agent to its request.
            deadline_s: when all must have answered.
            common: encoded fields that the requests have in common, and do not contain.
        """
        gone = self.lost.keys() | self.missing.keys()
        forwarded = self._forwarding.sort(method, requests, gone)
        through = {name for names in forwarded.values() for name in names}
        # Before the calls, which agents may answer while the last ones are still being sent.
        begin_s = time.monotonic()

        def directly(name: str, timeout_s: float) -> Any:
            request = requests[name]
            if common:
                request = type(request).FromString(request.SerializeToString() + common)
            return getattr(self._stubs[name], method).future(request, timeout=timeout_s)

        calls = {
            name: directly(name, min(deadline_s, LOST_DEADLINE_S) if name in gone else deadline_s)
            for name in requests
            if name not in through
        }
        for name, call in calls.items():
            call.add_done_callback(lambda _, name=name: self._took_s.update({name: time.monotonic() - begin_s}))
        answers: dict[str, Any] = {}
        if forwarded:
            mails = [Mail(by, deadline_s, self._gone) for by in forwarded]

            def ask(mail: Mail, names: Iterable[str]) -> dict[str, Any]:
                own = {name: requests[name] for name in names}
                return self._answers_by_letters(method, own, common, mail)

            self._mails |= set(mails)
            with ThreadPoolExecutor(len(mails), thread_name_prefix="forwarding") as pool:
                for some in pool.map(ask, mails, forwarded.values()):
                    answers |= some
            self._mails -= set(mails)
            left_s = max(LOST_DEADLINE_S, deadline_s - (time.monotonic() - begin_s))
            calls |= {name: directly(name, left_s) for name in through - answers.keys()}
        for name, call in calls.items():
            try:
                answers[name] = call.result()
                check_message(answers[name])
            except grpc.RpcError as error:
                answers[name] = self._error(name, error)
            except AgentError as error:
                answers[name] = error
        return {name: answers[name] for name in requests}

    def _answers_by_letters(
        self, method: str, requests: Mapping[str, Any], common: bytes, mail: Mail
    ) -> dict[str, Any]:
        """Return the answers of agents that got a letter. Agents that a forwarder could not reach are left out."""
        begin_s = time.monotonic()
        answers: dict[str, Any] = {}
        parts = self._forwarding.letters(method, requests, common)
        for part, came in chain.from_iterable(self._forwarding.answers(method, parts, common, mail)):
            if isinstance(came, ForwardedError):
                # A short call has the same effect twice as once.
                if came.delivered and came.code() is not grpc.StatusCode.ABORTED:
                    answers[part.name] = self._error(part.name, came)
            elif came is not None:
                try:
                    check_message(came)
                    answers[part.name] = came
                    self._took_s[part.name] = time.monotonic() - begin_s
                except AgentError as error:
                    answers[part.name] = error
        return answers

    def _gone(self) -> set[str]:
        return self.lost.keys() | self.missing.keys()

    def _error(self, name: str, error: grpc.RpcError) -> AgentError:
        why = self._reach.why(name, error)
        logger.debug("%s: a call failed: %s", name, why)
        failure = failure_of(error)
        if failure == pb.FAILURE_HELD:
            return BusyError(
                why, failure=failure, lease_left_s=fact_s(error, "lease_left_s"), lease_s=fact_s(error, "lease_s")
            )
        if failure == pb.FAILURE_NOT_ENROLLED and (holder := self._holder(name)):
            self.taken_over[name] = f"run `{holder}` has taken the agent over"
            return AgentError(self.taken_over[name], failure=failure)
        return AgentError(why, failure=failure)

    def _holder(self, name: str) -> str:
        """Return the name of the other run that holds an agent; empty = none, or unknown."""
        try:
            health = self._stubs[name].Health(pb.HealthRequest(), timeout=LOST_DEADLINE_S)
            check_message(health)
        except (grpc.RpcError, AgentError, ValueError):
            # ValueError: the channel is closed, because our own run has ended meanwhile.
            return ""
        return "" if health.run_id == self.run_id else str(health.run_id)

    def _streams(
        self,
        method: str,
        requests: Mapping[str, Any],
        deadline_s: float,
        silence_s: Callable[[], float],
        joining: Callable[[], Mapping[str, Any]] = dict,
    ) -> Iterator[tuple[str, Any]]:
        """Merge one stream per agent into one iterator, in order of arrival."""
        arrivals: queue.SimpleQueue[list[Arrival]] = queue.SimpleQueue()
        streams: list[tuple[str, Any]] = []
        gone: dict[str, str] = {}

        def accepted(name: str, reply: Any) -> Arrival:
            check_message(reply, deadline_s=deadline_s)
            self._heard_s[name] = time.monotonic()
            return name, reply, None

        def distrusted(name: str, error: AgentError) -> Arrival:
            self._distrusted.add(name)
            return name, AgentError(f"agent on {name}: {error}"), None

        def failed(name: str, error: grpc.RpcError) -> Arrival:
            # Dropping a host cancels its stream, so the stream's own error says nothing about the cause.
            why = AgentError(self.lost[name]) if name in self.lost else self._error(name, error)
            if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.UNAVAILABLE:
                gone[name] = why.message
            return name, AgentError(f"agent on {name}: {why}", failure=why.failure), None

        def leave(name: str, call: Any) -> None:
            why = AgentError(f"agent on {name}: {self.lost.get(name, 'cancelled')}")
            arrivals.put([(name, why, None), (name, None, call)])

        def drain(name: str, replies: Any, call: Any) -> None:
            try:
                for reply in replies:
                    arrivals.put([accepted(name, reply)])
            except AgentError as error:
                replies.cancel()
                arrivals.put([distrusted(name, error)])
            except grpc.RpcError as error:
                arrivals.put([failed(name, error)])
            finally:
                arrivals.put([(name, None, call)])

        def begin_draining(name: str, replies: Any, call: Any) -> None:
            threading.Thread(target=drain, args=(name, replies, call), daemon=True, name=f"stream-{name}").start()

        def taken(part: Part, came: Any, call: Lettered, request: Any) -> list[Arrival]:
            name = part.name
            if call.is_over:
                part.is_over = True
            elif came is None:
                return [(name, None, call)] if call.finish() else []
            elif not isinstance(came, ForwardedError):
                try:
                    return [accepted(name, came)]
                except AgentError as error:
                    part.is_over = True
                    return [distrusted(name, error), *([(name, None, call)] if call.finish() else [])]
            elif came.delivered:
                return [failed(name, came)]
            else:
                replies = getattr(self._stubs[name], method)(request, timeout=deadline_s)
                call.continue_by(replies)
                begin_draining(name, replies, call)
            return []

        def drain_letters(own: Mapping[str, Any], calls: Mapping[str, Lettered], mail: Mail) -> None:
            parts = self._forwarding.letters(method, own)
            for some in self._forwarding.answers(method, parts, b"", mail):
                # In one piece: each wakes the thread that waits for it, which takes longer than all else.
                arrivals.put(
                    [each for part, came in some for each in taken(part, came, calls[part.name], own[part.name])]
                )

        def begin(additions: Mapping[str, Any]) -> set[Any]:
            begun: list[tuple[str, Any]] = []
            forwarded = self._forwarding.sort(method, additions, self._gone())
            through = {name for names in forwarded.values() for name in names}
            for name in additions.keys() - through:
                call = getattr(self._stubs[name], method)(additions[name], timeout=deadline_s)
                begun.append((name, call))
                begin_draining(name, call, call)
            for by, names in forwarded.items():
                mail = Mail(by, deadline_s, self._gone)
                self._mails.add(mail)
                calls = {name: Lettered(name, mail, leave) for name in names}
                begun += calls.items()
                own = {name: additions[name] for name in names}
                threading.Thread(
                    target=drain_letters, args=(own, calls, mail), daemon=True, name=f"letters-{by}"
                ).start()
            for name, call in begun:
                self._open.setdefault(name, []).append(call)
            streams.extend(begun)
            return {call for _, call in begun}

        def cancel() -> None:
            for _, call in streams:
                call.cancel()

        logger.debug("run %s: %s at %d agents, at most %.0f s", self.run_id, method, len(requests), deadline_s)
        try:
            open_calls = aside(lambda: begin(requests))
            while open_calls:
                try:
                    arrived = arrivals.get(timeout=silence_s())
                except queue.Empty:
                    for name in sorted(name for name, call in streams if call in open_calls):
                        yield name, AgentError(f"agent on {name}: it fell silent", failure=pb.FAILURE_LATE)
                    return
                for name, reply, ended in arrived:
                    if ended is not None:
                        open_calls.discard(ended)
                    else:
                        self._sent[name] += _bytes_sent(reply)
                        yield name, reply
                    if joins := joining():
                        open_calls |= aside(lambda joins=joins: begin(joins))  # type: ignore[misc]
                        for name in joins:
                            gone.pop(name, None)
        finally:
            aside(cancel)
            for name, call in streams:
                if call in self._open.get(name, ()):
                    self._open[name].remove(call)
                if isinstance(call, Lettered):
                    self._mails.discard(call.mail)
            gone = {name: reason for name, reason in list(gone.items()) if name not in self.lost}
            # Later calls leave these hosts out: every peer of a dead agent would wait for it in vain.
            self.missing |= gone
            self.hosts = [host for host in self.hosts if host.name not in gone]


class _Stubs(dict[str, Any]):
    """The agents' services by host name. A connection that was closed opens again when it is used."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        super().__init__({name: AgentStub(channel) for name, channel in reach.channels.items()})  # type: ignore[no-untyped-call]

    def __missing__(self, name: str) -> Any:
        stub = self[name] = AgentStub(self._reach.reopened(name))  # type: ignore[no-untyped-call]
        return stub

    def rest(self, names: Iterable[str]) -> None:
        """Close the connections to some agents until they are used."""
        for name in names:
            self.pop(name, None)
            self._reach.rest(name)


def _bytes_sent(reply: Any) -> int:
    """Return the bytes that an event of a stream cost the agent's budget."""
    if isinstance(reply, pb.ProbeReply):
        return reply.bytes_sent
    return reply.done.bytes if isinstance(reply, pb.ReplayReply) else 0
