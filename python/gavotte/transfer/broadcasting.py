"""Brings a file from one host to many: plans, starts, watches, and plans anew around hosts that die or fall behind."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import Any, Protocol

from gavotte import _core
from gavotte.agents import Budget, Fleet, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.tables import Tabular
from gavotte.transfer.blocktimes import BlockTimes, default_path
from gavotte.transfer.planning import BroadcastPlan, Mechanism, nothing_known, plan_broadcast
from gavotte.transfer.probing import look
from gavotte.transfer.shuffling import Flow

logger = logging.getLogger(__name__)

CONGESTION = "cubic"
"""Pinned on every socket: hosts differ in their default."""

REPORT_S = 0.2
"""How often each host says how far it is."""

CONDUCT_S = 0.1
"""How often it is looked at who stands still, and a `Pacing` is told what is under way, while nothing else happens."""

LAST_WORD_S = 2.0
"""How long the source may take to say how much it has sent, when all have it."""

SILENCE_S = 30.0
"""All hosts together have been silent for so long: they are given up."""

READ_S = 600.0
"""How long the source may take to read its file, and a receiver to look through what an earlier broadcast has left."""

HOST = "{host}"
"""Stands in an output path for the receiver's name."""

HASH_BYTES = 32

CORNETS = ("cornet", "topology", "clustering")
"""Mechanisms in which receivers choose themselves what they fetch."""

Buffer = bytes | bytearray | memoryview

Watch = Callable[[str, int, int], None]
"""Called with a receiver, the bytes that it has, and all bytes."""


class Pacing(Protocol):
    """Somebody who says how fast the flows of a broadcast may be while it runs."""

    def under_way(self, flows: Sequence[Flow]) -> None:
        """Told of parent, child and bytes left of each subscription. Those of which `limits` has said nothing wait."""

    def limits(self) -> Mapping[tuple[str, str], float]:
        """What has changed since the last call: parent and child to bit/s; infinite = no limit, 0 = it waits."""

    def stopped(self) -> bool:
        """Whether the broadcast is to end."""


@dataclass
class Receiver:
    """What became of one receiver.

    Attributes:
        host: its name.
        path: where its copy is.
        finish_s: when it had all, under its name, in seconds since the source began to send; None = never.
        ok: whether it has all.
        error: why not; empty = it has.
        bytes: how much it has.
        bad_blocks: blocks that came wrong, were thrown away and sent again.
    """

    host: str
    path: str
    finish_s: float | None = None
    ok: bool = False
    error: str = ""
    bytes: int = 0
    bad_blocks: int = 0


@dataclass
class BroadcastResult(Tabular):
    """A broadcast as it went. All times in seconds.

    Attributes:
        plan: how it was to go.
        receivers: in the plan's order.
        setup_s: from the first call to the agents until the source began to send.
        elapsed_s: from there until the last healthy receiver had all; None = none has.
        checksum: BLAKE3 of the hashes of all blocks, the same at each receiver that has all; hexadecimal.
        source_sent_bytes: payload that left the source.
        changes: what was changed under way and why.
    """

    plan: BroadcastPlan
    receivers: list[Receiver]
    setup_s: float = 0.0
    elapsed_s: float | None = None
    checksum: str = ""
    source_sent_bytes: int = 0
    changes: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """How many times the lower bound it took."""
        return self.plan.ratio(self.elapsed_s)

    @property
    def lost(self) -> dict[str, str]:
        """Receivers that do not have it, and why."""
        return {each.host: each.error for each in self.receivers if not each.ok}

    def to_records(self) -> list[dict[str, Any]]:
        """One row a receiver."""
        return [
            {"host": each.host, "finish_s": each.finish_s, "ok": each.ok, "error": each.error}
            for each in self.receivers
        ]


def broadcast(
    path: str | Buffer,
    inventory: Inventory,
    source: str,
    output: str,
    *,
    targets: Sequence[str] | None = None,
    network: Network | None = None,
    mechanism: Mechanism = "auto",
    block_bytes: int = 0,
    max_seconds: float = 3600.0,
    times: Path | None = None,
    seed: int = 0,
    planned: Callable[[BroadcastPlan], None] | None = None,
    watch: Watch | None = None,
    pacing: Pacing | None = None,
) -> BroadcastResult:
    """Brings a file from one host to others, each block checked against its hash.

    A copy is at `PATH.partial` until it is whole. What an earlier broadcast has left there is not sent again.

    Args:
        path: of the file at the source, absolute; or an object of bytes, if the source is on this machine.
        inventory: where the hosts are.
        source: the host that has it.
        output: where copies are to be, absolute, with `{host}` for each receiver's name.
        targets: who is to have it; None = all hosts but the source.
        network: what is known of the hosts; None = each one's port is probed for half a second.
        mechanism: how; `auto` takes the fastest predicted.
        block_bytes: what is checked and asked for again as a whole; 0 = as suits the file.
        max_seconds: when to give up.
        times: where Cornet's block transfer times are kept, from which `clustering` learns; None = in the user's cache.
        seed: of all random choices.
        planned: told of the plan before the start.
        watch: told how far each receiver is.
        pacing: says how fast each flow may be; None = as fast as the network.

    Returns:
        what became of each receiver: one that is lost does not keep others from having all.

    Raises:
        GavotteError: when hosts, file and output do not belong together.
        AgentError: when the source cannot send.
    """
    receivers = receivers_of(inventory, source, targets)
    if not isinstance(path, str):
        with _as_file(path, inventory, source) as file:
            return broadcast(
                file,
                inventory,
                source,
                output,
                targets=targets,
                network=network,
                mechanism=mechanism,
                block_bytes=block_bytes,
                max_seconds=max_seconds,
                times=times,
                seed=seed,
                planned=planned,
                watch=watch,
                pacing=pacing,
            )
    paths = output_paths(output, receivers)
    used = inventory.model_copy(update={"host": [each for each in inventory.host if each.name in {source, *receivers}]})
    # Nobody knows yet how large the file is; agents have caps of their own.
    budget = Budget(max_bytes=1 << 62, max_seconds=max_seconds + READ_S)
    with enrolled(used, budget, purpose=f"broadcast {PurePosixPath(path).name}", shared=True) as fleet:
        begin_s = time.monotonic()
        if source in fleet.missing:
            raise AgentError(f"the source {source} cannot be used: {fleet.missing[source]}")
        manifest = fleet.manifest(source, path, block_bytes=block_bytes, deadline_s=READ_S)
        there = [name for name in receivers if name not in fleet.missing]
        if network is None and there and manifest.bytes:
            network = look(fleet, [source, *there], congestion=CONGESTION)
        known = nothing_known([source, *receivers]) if network is None else _with_all(network, [source, *receivers])
        kept = BlockTimes.read(times or default_path(used)) if mechanism in CORNETS else None
        inferred = kept.partitions(known.names, seed=seed) if kept and mechanism == "clustering" else None
        plan = plan_broadcast(known, source, receivers, manifest.bytes, mechanism=mechanism, inferred=inferred)
        if planned is not None:
            planned(plan)
        result = BroadcastResult(plan, [Receiver(name, paths[name]) for name in receivers])
        at = {name: index for index, name in enumerate(known.names)}
        run = _Run(fleet, manifest, path, result, at, watch, begin_s, kept, seed, pacing)
        run.run(max_seconds)
        if kept is not None:
            kept.write()
    return result


def plan_file(
    path: str,
    inventory: Inventory,
    source: str,
    output: str,
    *,
    targets: Sequence[str] | None = None,
    network: Network | None = None,
    mechanism: Mechanism = "auto",
) -> BroadcastPlan:
    """What `broadcast` would do, with only the source asked, for the size of its file.

    The arguments are those of `broadcast`.

    Raises:
        GavotteError: when hosts, file and output do not belong together.
        AgentError: when the source's agent does not answer.
    """
    receivers = receivers_of(inventory, source, targets)
    output_paths(output, receivers)
    only = inventory.model_copy(update={"host": [each for each in inventory.host if each.name == source]})
    with enrolled(only, Budget(max_bytes=1, max_seconds=READ_S), purpose="plan a broadcast", shared=True) as fleet:
        size_bytes = fleet.manifest(source, path, deadline_s=READ_S).bytes
    known = nothing_known([source, *receivers]) if network is None else _with_all(network, [source, *receivers])
    return plan_broadcast(known, source, receivers, size_bytes, mechanism=mechanism)


def output_paths(output: str, receivers: Sequence[str]) -> dict[str, str]:
    """Where each receiver's copy is to be.

    Raises:
        GavotteError: when it is not the absolute path of a file.
    """
    where = PurePosixPath(output)
    if not where.is_absolute() or output.endswith("/") or ".." in where.parts:
        raise GavotteError(
            f"the output path `{output}` is not the absolute path of a file", hint="give one, as `/tmp/copy-{host}`"
        )
    return {name: output.replace(HOST, name) for name in receivers}


@contextmanager
def _as_file(content: Buffer, inventory: Inventory, source: str) -> Iterator[str]:
    """Puts an object of bytes into a file in memory that the source's agent can read, for as long as it is needed."""
    host = next(host for host in inventory.host if host.name == source)
    if not host.agent.startswith("unix:"):
        raise GavotteError(f"{source} cannot read this process's memory", hint="write a file there and name it")
    memory = Path("/dev/shm")
    with NamedTemporaryFile(prefix="gavotte-", dir=memory if memory.is_dir() else None) as file:
        file.write(content)
        file.flush()
        yield file.name


def receivers_of(inventory: Inventory, source: str, targets: Sequence[str] | None) -> list[str]:
    """Who is to have it: `targets`, or all hosts but the source.

    Raises:
        GavotteError: for hosts that the inventory does not have, one that is named twice, or nobody.
    """
    names = [host.name for host in inventory.host]
    wanted = [name for name in names if name != source] if targets is None else list(targets)
    for name in (source, *wanted):
        if name not in names:
            raise GavotteError(f"`{name}` is not a host of the inventory", hint="`gavotte hosts check` lists them")
    if source in wanted:
        raise GavotteError(f"`{source}` has the file already", hint="leave the source out of the receivers")
    if len(set(wanted)) < len(wanted):
        raise GavotteError("a receiver is named twice", hint="name each once")
    if not wanted:
        raise GavotteError("there is nobody to send to", hint="an inventory needs a host besides the source")
    return wanted


def _with_all(network: Network, names: Sequence[str]) -> Network:
    """The Network of some hosts. Of those that it does not have nothing is known."""
    known = network.names
    if all(name in known for name in names):
        return network.of_hosts([known.index(name) for name in names])
    missing = next(name for name in names if name not in known)
    if len(set(names) & set(known)) == 0:
        raise GavotteError(f"`{missing}` is not a host of the Network", hint="measure these hosts")
    raise GavotteError(f"`{missing}` is not a host of the Network", hint="measure it, or leave it out with --to")


class _Run:
    """One broadcast in progress."""

    def __init__(
        self,
        fleet: Fleet,
        manifest: pb.ManifestReply,
        path: str,
        result: BroadcastResult,
        at: dict[str, int],
        watch: Watch | None,
        begin_s: float,
        kept: BlockTimes | None,
        seed: int,
        pacing: Pacing | None,
    ) -> None:
        self._fleet = fleet
        self._manifest = manifest
        self._path = path
        self._result = result
        self._plan = result.plan
        self._at = at
        self._names = {index: name for name, index in at.items()}
        self._watch = watch
        self._begin_s = begin_s
        self._kept = kept
        self._seed = seed
        self._start_s: float | None = None
        self._by_name = {each.host: each for each in result.receivers}
        self._id = fleet.run_id
        self._expected = {self._plan.source, *self._plan.receivers} - set(fleet.missing)
        self._conductor = _core.Conductor(
            self._plan.ground,
            manifest.bytes,
            manifest.block_bytes,
            self._plan.mechanism,
            self._plan.piece_bytes,
            self._plan.predicted_s or float("inf"),
            self._plan.partitions,
            seed,
        )
        self._pacing = pacing
        self._asked_s = self._conducted_s = 0.0
        if pacing is not None:
            self._conductor.hold()

    def run(self, max_seconds: float) -> None:
        for name, reason in self._fleet.missing.items():
            self._lose(name, reason)
        requests = {name: self._request(name) for name in self._expected}
        over_s = 0.0
        stream = self._fleet.broadcast(
            requests,
            deadline_s=max_seconds + READ_S,
            silence_s=lambda: READ_S if self._start_s is None else SILENCE_S,
        )
        try:
            for name, reply in stream:
                # The source says once more how much it has sent.
                source = self._plan.source
                if self._heard(name, reply) and (
                    name == source
                    or self._now() > over_s + LAST_WORD_S
                    or self._conductor.loss(self._at[source]) is not None
                ):
                    break
                if self._pacing is not None and self._pacing.stopped():
                    for host in self._plan.receivers:
                        self._conductor.lost(self._at[host], "it was cancelled", self._now())
                    break
                over_s = over_s if self._conductor.is_over() else self._now()
                if self._now() > max_seconds:
                    for host in self._plan.receivers:
                        self._conductor.lost(self._at[host], f"it took longer than {max_seconds:g} s", self._now())
                    break
        finally:
            stream.close()  # type: ignore[attr-defined]
        self._conclude()

    def _request(self, name: str) -> pb.BroadcastRequest:
        source = name == self._plan.source
        return pb.BroadcastRequest(
            run_id=self._fleet.run_id,
            broadcast_id=self._id,
            path=self._path if source else self._by_name[name].path,
            source=source,
            manifest=self._manifest,
            piece_bytes=self._plan.piece_bytes,
            report_s=REPORT_S,
            congestion=CONGESTION,
            fetches=not source and self._plan.mechanism in CORNETS,
            seed=(self._seed + 1) * 1_000_003 + self._at[name],
        )

    def _now(self) -> float:
        """Seconds since the source began to send; before, 0."""
        return 0.0 if self._start_s is None else time.monotonic() - self._start_s

    def _heard(self, name: str, reply: pb.BroadcastReply | AgentError) -> bool:
        """Takes what an agent says; whether the broadcast is over."""
        now_s, at = self._now(), self._at[name]
        reply_is_progress = not isinstance(reply, AgentError) and reply.HasField("progress")
        if isinstance(reply, AgentError):
            self._lose(name, reply.message)
        elif reply.HasField("opened"):
            self._expected.discard(name)
            self._conductor.opened(at, reply.opened.have, reply.opened.bytes, now_s)
        elif reply.HasField("progress"):
            self._progress(name, reply.progress)
        elif reply.HasField("broken"):
            parent = self._at.get(reply.broken.parent)
            if parent is not None:
                self._conductor.broken(at, parent, reply.broken.error, now_s)
        elif reply.HasField("kept"):
            self._conductor.kept(at)
            receiver = self._by_name[name]
            receiver.ok, receiver.finish_s, receiver.bytes = True, now_s, self._plan.bytes
            self._result.checksum = reply.kept.checksum.hex()
        elif reply.HasField("failed"):
            self._lose(name, reply.failed.error)
        if not self._expected:
            if self._start_s is None:
                self._start()
            # What many hosts tell at once changes little each.
            if not reply_is_progress or time.monotonic() >= self._conducted_s + CONDUCT_S:
                self._conducted_s = time.monotonic()
                self._limit()
                self._conductor.tick(self._now())
                self._conduct()
        return self._conductor.is_over()

    def _progress(self, name: str, holding: pb.Holding) -> None:
        self._conductor.progress(self._at[name], holding.have, holding.bytes, self._now())
        if self._kept is not None:
            for each in holding.fetched:
                self._kept.add(each.peer, name, each.seconds / self._manifest.block_bytes)
        if name == self._plan.source:
            self._result.source_sent_bytes = holding.sent_bytes
            return
        receiver = self._by_name[name]
        receiver.bytes, receiver.bad_blocks = holding.bytes, holding.bad_blocks
        if self._watch is not None:
            self._watch(name, holding.bytes, self._plan.bytes)

    def _start(self) -> None:
        """Connects everybody, then lets the source go."""
        self._conduct()
        if self._conductor.loss(self._at[self._plan.source]) is None:
            self._fleet.start([self._plan.source], self._id)
        self._start_s = time.monotonic()
        self._result.setup_s = self._start_s - self._begin_s

    def _conduct(self) -> None:
        """Hands on what the conductor has changed, and tells of it."""
        answers = {
            self._names[host]: pb.SpliceRequest(
                run_id=self._fleet.run_id,
                broadcast_id=self._id,
                peers=[pb.SwarmPeer(name=self._names[peer], have=have) for peer, have in peers],
            )
            for host, peers in self._conductor.answers(self._now())
        }
        for name, error in self._fleet.splice(answers).items():
            self._lose(name, f"its agent does not answer ({error})")
        while changes := self._conductor.changes():
            requests = {
                self._names[host]: pb.SpliceRequest(
                    run_id=self._fleet.run_id,
                    broadcast_id=self._id,
                    feeds=[
                        pb.Feed(parent=self._names[parent], blocks=blocks, pace_bps=pace_bps)
                        for parent, blocks, pace_bps in feeds
                    ],
                )
                for host, feeds in changes
            }
            for name, error in self._fleet.splice(requests).items():
                self._lose(name, f"its agent does not answer ({error})")
        for line in self._conductor.log():
            logger.info("%.2f s: %s", self._now(), line)
            self._result.changes.append(line)

    def _limit(self) -> None:
        """Takes the limits that are new, and tells what there is to limit."""
        if self._pacing is None:
            return
        for (parent, child), pace_bps in self._pacing.limits().items():
            self._conductor.limit(self._at[parent], self._at[child], pace_bps, self._now())
        if time.monotonic() >= self._asked_s + CONDUCT_S:
            self._asked_s = time.monotonic()
            flows = self._conductor.flows()
            self._pacing.under_way([(self._names[m], self._names[n], float(left)) for m, n, left in flows])

    def _lose(self, name: str, why: str) -> None:
        self._expected.discard(name)
        known = self._conductor.loss(self._at[name]) is not None
        if name == self._plan.source and self._start_s is None:
            raise AgentError(f"the source {name} cannot send: {why}")
        self._conductor.lost(self._at[name], why, self._now())
        if not known and name not in self._fleet.missing:
            self._fleet.drop(name, why)

    def _conclude(self) -> None:
        for each in self._result.receivers:
            if not each.ok:
                each.error = self._conductor.loss(self._at[each.host]) or "the broadcast ended before it had all"
        finished = [each.finish_s for each in self._result.receivers if each.finish_s is not None]
        self._result.elapsed_s = max(finished, default=None)
        for line in self._conductor.log():
            self._result.changes.append(line)
