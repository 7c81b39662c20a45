"""Conduct a running broadcast: receive its agents' reports, and send them the changes around hosts that fail."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from gavotte import _core
from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError, GavotteError
from gavotte.transfer.adapting import FREE_PACE, Adapting
from gavotte.transfer.blocktimes import BlockTimes
from gavotte.transfer.joining import Latecomers
from gavotte.transfer.outcome import BroadcastResult, Receiver
from gavotte.transfer.packing import PackedTree
from gavotte.transfer.planning import CORNETS, BroadcastPlan
from gavotte.transfer.question import BroadcastQuestion, BroadcastSession
from gavotte.transfer.reporting import Reporting

logger = logging.getLogger(__name__)

CONGESTION = "cubic"
"""Set on every socket, because hosts have different defaults."""

REPORT_S = 0.2
"""Time between two reports of a host's progress."""

CONDUCT_S = 0.1
"""Time between two searches for stalled hosts, if nothing else happens. A `Pacing` then gets the current flows, too."""

CONNECT_S = 0.5
"""Time that the start waits for connections between hosts, plus `CONNECT_TRIPS`. A host that does not answer delays the
others by this time only."""

CONNECT_TRIPS = 6
"""Round trips of the farthest pair in that time: 3 to connect and to prove the secret, and as many to spare."""

LAST_WORD_S = 2.0
"""Longest time that the source may take to report how much it has sent, when all receivers are complete."""

SILENCE_S = 30.0
"""All hosts are given up when all of them together have been silent for this long."""

SILENT_S = 1.8
"""A receiver that reports nothing for this long, while others report, no longer takes part, and is retried.

Its process hangs, or it is unreachable. This is shorter than the time after which a host without new bytes is moved.
"""

SILENT_REPORTS = 6.0
"""On a machine that is short of processors, all reports are late. The time then is this many average intervals."""

QUIET_REPORTS = 3.0
"""A host that missed this many reports gets its changes in the background, since a call to it may take long."""

SPLICE_S = 2.5
"""Deadline of a change that an agent has to accept."""

CORRUPT = "was corrupt"
"""Words of an agent that got a block whose hash is not that of the manifest."""

CHECK_S = 60.0
"""Longest time that the end waits for the source to read its object again, if blocks from it were corrupt."""

READ_S = 600.0
"""Longest time that the source may take to read its file, and a receiver to check an earlier broadcast's remains."""


class Run:
    """One broadcast in progress.

    Attributes:
        doubt: returns why no receiver can fetch anything from the source; empty if one can, or if it is not known yet.
    """

    doubt: Callable[[], str] = staticmethod(lambda: "")

    def __init__(
        self,
        fleet: Fleet,
        question: BroadcastQuestion,
        session: BroadcastSession,
        manifest: pb.ManifestReply,
        plan: BroadcastPlan,
        names: Sequence[str],
        block_times: BlockTimes | None,
        begin_s: float,
    ) -> None:
        self._fleet = fleet
        self._question = question
        self._hosts = {host.name: host for host in question.inventory.host}
        self._manifest = manifest
        self._plan = plan
        self._at = {name: index for index, name in enumerate(names)}
        self._names = names
        self._watch = session.watch
        self._begin_s = begin_s
        self._kept = block_times
        self._start_s: float | None = None
        self._receivers = {name: Receiver(name, path) for name, path in question.paths.items()}
        self._changes: list[str] = []
        self._setup_s = 0.0
        self._manifest_checksum = _core.blocks_checksum(manifest.hashes)
        self._source_check: threading.Thread | None = None
        self._source_change = ""
        self._sent_bytes = 0
        self._id = fleet.run_id
        self._latecomers = Latecomers(fleet)
        self._expected = {self._plan.source, *self._plan.receivers} - fleet.away.keys()
        self._conductor = _core.Conductor(
            self._plan.ground,
            manifest.bytes,
            manifest.block_bytes,
            self._plan.mechanism,
            self._plan.piece_bytes,
            self._plan.predicted_s or float("inf"),
            self._plan.partitions,
            question.seed,
        )
        self._adapting: Adapting | None = None
        if self._plan.trees:
            members = [self._at[name] for name in (self._plan.source, *self._plan.receivers)]
            self._adapting = Adapting(
                self._plan.ground,
                members,
                manifest.bytes,
                manifest.block_bytes,
                # Limits from outside say nothing about links.
                learns=self._plan.estimate_s is not None and session.pacing is None,
            )
            self._plant(self._plan.trees)
        self._pacing = session.pacing
        self._asked_s = self._conducted_s = 0.0
        self._connecting: set[tuple[str, str]] | None = None
        self._connect_until_s = 0.0
        self._reporting = Reporting()
        self._failed_calls: queue.SimpleQueue[tuple[str, AgentError]] = queue.SimpleQueue()
        if self._pacing is not None:
            self._conductor.hold()

    def run(self) -> BroadcastResult:
        """Run until each receiver is complete or lost, or the time is up. Return the outcome of each."""
        for name, reason in self._fleet.away.items():
            self._conductor.absent(self._at[name])
            if self._adapting is not None:
                self._adapting.lost(self._at[name])
            self._changes.append(f"{name} is missing: {reason}; retrying it")
            self._latecomers.seek(name, reason)
        requests = {name: self._request(name) for name in self._expected}
        max_seconds, over_s = self._question.max_seconds, 0.0
        stream = self._fleet.broadcast(
            requests,
            deadline_s=max_seconds + READ_S,
            silence_s=lambda: READ_S if self._start_s is None else SILENCE_S,
            joining=self._joining,
        )
        try:
            for name, reply in stream:
                # The source reports again how much it has sent.
                source = self._plan.source
                over = self._heard(name, reply)
                waits = self._latecomers.sought and self._now() < over_s + self._question.wait_s
                ends = (over and not waits and not self._latecomers.untried()) and (
                    name == source
                    or self._now() > over_s + LAST_WORD_S
                    or self._conductor.loss(self._at[source]) is not None
                )
                if ends and not self._invite(ending=True):
                    break
                if self._pacing is not None and self._pacing.stopped():
                    for host in self._receivers:
                        self._conductor.lost(self._at[host], "it was cancelled", self._now())
                    break
                if (reason := self.doubt()) and not any(each.bytes for each in self._receivers.values()):
                    raise AgentError(reason)
                if self._source_change:
                    break
                over_s = over_s if self._conductor.is_over() else self._now()
                if self._now() > max_seconds:
                    for host in self._receivers:
                        self._conductor.lost(self._at[host], f"it took longer than {max_seconds:g} s", self._now())
                    break
        finally:
            stream.close()  # type: ignore[attr-defined]
            self._latecomers.stop()
        if self._source_check is not None and any(not each.ok for each in self._receivers.values()):
            self._source_check.join(CHECK_S)
        return self._conclude()

    def _check_source(self) -> None:
        """Compare the source's object with its manifest, once and in the background: blocks from it were corrupt."""
        if self._source_check is not None:
            return
        path, source = str(self._question.content), self._plan.source

        def check() -> None:
            try:
                now = self._fleet.manifest(source, path, block_bytes=self._manifest.block_bytes, deadline_s=READ_S)
            except (AgentError, ValueError) as error:
                logger.info("%s: cannot be read again: %s", source, error)
                return
            if (now.bytes, now.hashes) != (self._manifest.bytes, self._manifest.hashes):
                self._source_change = f"{path} on {source} changed while it was sent"

        self._source_check = threading.Thread(target=check, daemon=True, name="check-source")
        self._source_check.start()

    def _request(self, name: str) -> pb.BroadcastRequest:
        source, cache = name == self._plan.source, self._question.cache
        return pb.BroadcastRequest(
            run_id=self._fleet.run_id,
            broadcast_id=self._id,
            path=str(self._question.content) if source else self._receivers[name].path,
            source=source,
            manifest=self._manifest,
            piece_bytes=self._plan.piece_bytes,
            report_s=REPORT_S,
            congestion=CONGESTION,
            fetches=not source and self._plan.mechanism in CORNETS,
            seed=(self._question.seed + 1) * 1_000_003 + self._at[name],
            cache="" if source or cache is None else cache.on(name),
            cache_bytes=0 if cache is None else cache.most_bytes,
            encrypt=self._question.encrypt,
        )

    def _invite(self, *, ending: bool = False) -> bool:
        """Retry hosts that were not named at the start. Return whether any such hosts exist."""
        newcomers = [] if self._pacing is None else self._pacing.newcomers(ending=ending)
        for name, path in newcomers:
            self._receivers[name] = Receiver(name, path)
            self._conductor.invite(self._at[name])
            try:
                self._fleet.invite(self._hosts[name])
            except GavotteError as error:
                self._latecomers.sought[name] = str(error)
            self._latecomers.seek(name, "it has not answered yet", at_once=True)
        return bool(newcomers)

    def _joining(self) -> dict[str, pb.BroadcastRequest]:
        """Return the requests of hosts that were missing and have joined."""
        came = self._latecomers.came()
        for name in came:
            self._conductor.expect(self._at[name], self._now())
            self._receivers[name].joined_s = self._now()
        return {name: self._request(name) for name in came}

    def _now(self) -> float:
        """Return the seconds since the source began to send; 0 before."""
        return 0.0 if self._start_s is None else time.monotonic() - self._start_s

    def _heard(self, name: str, reply: pb.BroadcastReply | AgentError) -> bool:
        """Handle an agent's reply. Return whether the broadcast is over."""
        now_s, at = self._now(), self._at[name]
        self._reporting.heard(name, time.monotonic())
        reply_is_progress = not isinstance(reply, AgentError) and reply.HasField("progress")
        if isinstance(reply, AgentError):
            self._lose(name, reply.message)
            if name != self._plan.source and not self._receivers[name].ok:
                self._latecomers.seek(name, reply.message)
        elif reply.HasField("opened"):
            self._expected.discard(name)
            self._conductor.opened(at, reply.opened.have, reply.opened.bytes, now_s)
            if name in self._receivers:
                self._receivers[name].cached_bytes = reply.opened.cached_bytes
            if self._adapting is not None:
                self._adapting.progress(at, reply.opened.have)
        elif reply.HasField("progress"):
            self._progress(name, reply.progress)
        elif reply.HasField("broken"):
            parent = self._at.get(reply.broken.parent)
            self._settle(name, reply.broken.parent)
            if reply.broken.parent == self._plan.source and CORRUPT in reply.broken.error:
                self._check_source()
            if parent is not None:
                self._conductor.broken(at, parent, reply.broken.error, now_s)
        elif reply.HasField("connected"):
            self._settle(name, reply.connected.parent)
        elif reply.HasField("kept"):
            if reply.kept.checksum == self._manifest_checksum:
                self._conductor.kept(at)
                receiver = self._receivers[name]
                receiver.ok, receiver.finish_s, receiver.bytes = True, now_s, self._plan.bytes
            else:
                self._lose(name, "the checksum of its copy is not that of the source's manifest")
        elif reply.HasField("failed"):
            self._lose(name, reply.failed.error)
        if not self._expected:
            if self._connecting is None:
                self._connect()
            if self._start_s is None and self._connected():
                self._start()
            # Of many reports at the same time, each changes little.
            if not reply_is_progress or time.monotonic() >= self._conducted_s + CONDUCT_S:
                self._conducted_s = time.monotonic()
                self._limit()
                self._lose_silent()
                self._conductor.tick(self._now())
                self._put_aside()
                self._adapt()
                self._conduct()
        return self._conductor.is_over()

    def _plant(self, trees: Sequence[PackedTree]) -> None:
        """Send the blocks that are still missing over these trees."""
        pace = FREE_PACE if self._plan.estimate_s is not None else 1.0
        self._conductor.plant([(pace * tree.rate_bps, tree.edges) for tree in trees])
        if self._adapting is not None:
            self._adapting.planted(trees, self._now())
        if self._start_s is not None:
            # Edges between hosts that cannot connect are rearranged.
            self._conductor.separate([])

    def _adapt(self) -> None:
        """Replace the trees if better ones are known."""
        if self._adapting is None or self._start_s is None:
            return
        if trees := self._adapting.better(self._now()):
            self._plant(trees)
        for (parent, child), limit_bps in self._adapting.limits_bps().items():
            self._conductor.limit(parent, child, limit_bps, self._now())

    def _progress(self, name: str, holding: pb.Holding) -> None:
        self._conductor.progress(self._at[name], holding.have, holding.bytes, self._now())
        if self._adapting is not None:
            self._adapting.progress(self._at[name], holding.have)
        if self._kept is not None:
            for each in holding.fetched:
                self._kept.add(each.peer, name, each.seconds / self._manifest.block_bytes)
        if name == self._plan.source:
            self._sent_bytes = holding.sent_bytes
            return
        receiver = self._receivers[name]
        receiver.bytes, receiver.bad_blocks = holding.bytes, holding.bad_blocks
        if self._watch is not None:
            self._watch(name, holding.bytes, self._plan.bytes)

    def _connect(self) -> None:
        """Let all hosts connect to their parents."""
        ends = sorted(pair for pair in self._fleet.walls if self._at.keys() >= set(pair))
        if ends:
            self._conductor.separate([(self._at[child], self._at[parent]) for parent, child in ends])
        for parent, child in ends:
            # Each pair is closed both ways.
            if parent < child:
                self._changes.append(self._fleet.wall(parent, child))
        self._conduct()
        flows = self._conductor.flows()
        self._connecting = {(self._names[parent], self._names[child]) for parent, child, _ in flows}
        farthest_s = max((self._conductor.round_trip_s(parent, child) for parent, child, _ in flows), default=0.0)
        self._connect_until_s = time.monotonic() + CONNECT_S + CONNECT_TRIPS * farthest_s

    def _settle(self, child: str, parent: str) -> None:
        """Do not wait for a connection any longer."""
        if self._connecting is not None:
            self._connecting.discard((parent, child))

    def _connected(self) -> bool:
        """Return whether the source may start: all connections are open, or some take too long."""
        if not self._connecting:
            return True
        gone = {name for name, at in self._at.items() if self._conductor.loss(at) is not None}
        self._connecting = {ends for ends in self._connecting if not gone.intersection(ends)}
        return not self._connecting or time.monotonic() > self._connect_until_s

    def _start(self) -> None:
        """Let the source start."""
        if self._conductor.loss(self._at[self._plan.source]) is None:
            self._fleet.start([self._plan.source], self._id)
        self._start_s = time.monotonic()
        self._setup_s = self._start_s - self._begin_s

    def _conduct(self) -> None:
        """Pass on the conductor's changes, and record them."""
        answers = {
            self._names[host]: pb.SpliceRequest(
                run_id=self._fleet.run_id,
                broadcast_id=self._id,
                peers=[pb.SwarmPeer(name=self._names[peer], have=have) for peer, have in peers],
            )
            for host, peers in self._conductor.answers(self._now())
        }
        self._splice(answers)
        while changes := self._conductor.changes():
            requests = {
                self._names[host]: pb.SpliceRequest(
                    run_id=self._fleet.run_id,
                    broadcast_id=self._id,
                    feeds=[
                        pb.Feed(parent=self._names[parent], blocks=blocks, pace_bps=pace_bps, round_trip_s=round_trip_s)
                        for parent, blocks, pace_bps, round_trip_s in feeds
                    ],
                )
                for host, feeds in changes
            }
            if self._adapting is not None:
                for host, feeds in changes:
                    self._adapting.feed(host, [(parent, blocks, pace) for parent, blocks, pace, _ in feeds])
            self._splice(requests)
        for line in self._conductor.log():
            logger.info("%.2f s: %s", self._now(), line)
            self._changes.append(line)

    def _splice(self, requests: Mapping[str, pb.SpliceRequest]) -> None:
        """Send changes to agents. Agents that did not report lately get them in the background."""
        quiet = self._reporting.silent(QUIET_REPORTS * REPORT_S) if self._start_s is not None else set()

        def tell(name: str) -> None:
            try:
                errors = self._fleet.splice({name: requests[name]}, SPLICE_S)
            except ValueError as error:
                # The channels are closed, because the broadcast has ended meanwhile.
                logger.debug("%s: a change was not delivered: %s", name, error)
                return
            for failure in errors.values():
                self._failed_calls.put((name, failure))

        for name in requests.keys() & quiet:
            threading.Thread(target=tell, args=(name,), daemon=True, name=f"splice-{name}").start()
        prompt = {name: request for name, request in requests.items() if name not in quiet}
        for name, error in self._fleet.splice(prompt, SPLICE_S).items():
            self._lose(name, f"its agent does not answer ({error})")

    def _lose_silent(self) -> None:
        """Continue without receivers whose agents hang or are unreachable."""
        while not self._failed_calls.empty():
            name, error = self._failed_calls.get()
            if name not in self._fleet.away:
                self._lose(name, f"its agent does not answer ({error})")
        if self._start_s is None:
            return
        least_s = max(SILENT_S, SILENT_REPORTS * self._reporting.interval_s)
        for name in sorted(self._reporting.silent(least_s) - self._fleet.away.keys() - {self._plan.source}):
            why = f"its agent has reported nothing for {least_s:.1f} s"
            self._lose(name, why)
            if not self._receivers[name].ok:
                self._latecomers.seek(name, why)

    def _put_aside(self) -> None:
        """Pack trees without the hosts that no byte reaches any more."""
        for host in self._conductor.aside():
            if self._adapting is not None:
                self._adapting.lost(host)

    def _limit(self) -> None:
        """Apply new limits, and report which flows can be limited."""
        if self._pacing is None:
            return
        for (parent, child), pace_bps in self._pacing.limits().items():
            self._conductor.limit(self._at[parent], self._at[child], pace_bps, self._now())
        if time.monotonic() >= self._asked_s + CONDUCT_S:
            self._asked_s = time.monotonic()
            flows = self._conductor.flows()
            self._pacing.under_way([(self._names[m], self._names[n], float(left)) for m, n, left in flows])
            self._invite()

    def _lose(self, name: str, why: str) -> None:
        self._expected.discard(name)
        self._reporting.forget(name)
        known = self._conductor.loss(self._at[name]) is not None
        if name == self._plan.source and self._start_s is None:
            raise AgentError(f"the source {name} cannot send: {why}")
        self._conductor.lost(self._at[name], why, self._now())
        if self._adapting is not None:
            self._adapting.lost(self._at[name])
        if not known and name not in self._fleet.missing:
            self._fleet.drop(name, why)

    def _conclude(self) -> BroadcastResult:
        receivers = list(self._receivers.values())
        for each in receivers:
            if not each.ok:
                loss = self._conductor.loss(self._at[each.host]) or self._latecomers.sought.get(each.host)
                if self._source_change and (loss is None or CORRUPT in loss):
                    loss = self._source_change
                each.error = loss or "the broadcast ended before its copy was complete"
        finished = [each.finish_s for each in receivers if each.finish_s is not None]
        return BroadcastResult(
            self._plan,
            receivers,
            self._setup_s,
            max(finished, default=None),
            self._manifest_checksum.hex() if any(each.ok for each in receivers) else "",
            self._sent_bytes,
            [*self._changes, *self._conductor.log()],
            self._fleet.warnings,
            encrypted=self._question.encrypt,
        )
