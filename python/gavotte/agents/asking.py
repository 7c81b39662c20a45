"""Call all agents of a run at the same time: short calls, and streams of replies."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gavotte.agents import agent_pb2 as pb
from gavotte.agents import quiet  # noqa: F401 - before `agent_pb2_grpc`, which loads gRPC
from gavotte.agents.agent_pb2_grpc import AgentStub
from gavotte.agents.calls import aside, fact_s, failure_of
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
        self._sent: dict[str, int] = defaultdict(int)
        self._distrusted: set[str] = set()
        self._heard_s: dict[str, float] = {}
        self._took_s: dict[str, float] = {}
        self._stubs: dict[str, Any] = {name: AgentStub(channel) for name, channel in reach.channels.items()}  # type: ignore[no-untyped-call]

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

    def _answers(self, method: str, requests: Mapping[str, Any], deadline_s: float) -> dict[str, Any]:
        gone = self.lost.keys() | self.missing.keys()
        # Before the calls, which agents may answer while the last ones are still being sent.
        begin_s = time.monotonic()
        calls = {
            name: getattr(self._stubs[name], method).future(
                request, timeout=min(deadline_s, LOST_DEADLINE_S) if name in gone else deadline_s
            )
            for name, request in requests.items()
        }
        for name, call in calls.items():
            call.add_done_callback(lambda _, name=name: self._took_s.update({name: time.monotonic() - begin_s}))
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
        arrivals: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        streams: list[tuple[str, Any]] = []
        gone: dict[str, str] = {}

        def drain(name: str, call: Any) -> None:
            try:
                for reply in call:
                    check_message(reply, deadline_s=deadline_s)
                    self._heard_s[name] = time.monotonic()
                    arrivals.put((name, reply, None))
            except AgentError as error:
                call.cancel()
                self._distrusted.add(name)
                arrivals.put((name, AgentError(f"agent on {name}: {error}"), None))
            except grpc.RpcError as error:
                # Dropping a host cancels its stream, so the stream's own error says nothing about the cause.
                why = AgentError(self.lost[name]) if name in self.lost else self._error(name, error)
                if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.UNAVAILABLE:
                    gone[name] = why.message
                arrivals.put((name, AgentError(f"agent on {name}: {why}", failure=why.failure), None))
            finally:
                arrivals.put((name, None, call))

        def begin(additions: Mapping[str, Any]) -> list[Any]:
            begun = []
            for name, request in additions.items():
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
            # Later calls leave these hosts out: every peer of a dead agent would wait for it in vain.
            self.missing |= gone
            self.hosts = [host for host in self.hosts if host.name not in gone]


def _bytes_sent(reply: Any) -> int:
    """Return the bytes that an event of a stream cost the agent's budget."""
    if isinstance(reply, pb.ProbeReply):
        return reply.bytes_sent
    return reply.done.bytes if isinstance(reply, pb.ReplayReply) else 0
