"""Pull an object to one host, from the nearest hosts whose caches have its blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.agents import Budget, Fleet, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, unknown_host
from gavotte.tables import Tabular
from gavotte.terms import Progress
from gavotte.transfer.caching import READ_S, HostCache, cut_for_caches
from gavotte.transfer.conducting import CONGESTION, REPORT_S, SILENCE_S, SPLICE_S
from gavotte.transfer.planning import ASSUMED_PIECE_BYTES
from gavotte.transfer.question import output_paths
from gavotte.transfer.room import check_room
from gavotte.transfer.spelling import spelled_network

Blocks = npt.NDArray[np.bool_]

LOOK_S = 3.0
"""Longest time that the pull waits for other hosts to look through their caches."""

LAST_WORD_S = 2 * REPORT_S
"""Longest time that it waits for hosts to report how much they have sent, when the copy is complete."""


@dataclass(frozen=True)
class PullQuestion:
    """Which object one host gets, and from where.

    Attributes:
        path: absolute path of the file or folder at its source.
        inventory: the hosts' addresses and agents. All that answer may serve blocks.
        source: the host that has the object. It is read there for its hashes; blocks come from it that no cache has.
        host: the host that gets a copy.
        output: absolute path of the copy, with `{host}` for the host's name.
        cache: the hosts' caches.
        network: the Network between the hosts, by which the nearest are chosen; None = all are equally near.
        max_seconds: when to give up.
        encrypt: whether blocks are encrypted between hosts.
    """

    path: str
    inventory: Inventory
    source: str
    host: str
    output: str
    cache: HostCache
    network: Network | None = None
    max_seconds: float = 3600.0
    encrypt: bool = False

    @cached_property
    def names(self) -> list[str]:
        """Names of the source, the host and all others, as the inventory spells them.

        Raises:
            GavotteError: for hosts that the inventory does not have, or if the host is the source.
        """
        known = self.inventory.names
        source, host = known_as(self.source, known), known_as(self.host, known)
        for name in (source, host):
            if name not in known:
                raise unknown_host(name, known, "the inventory")
        if source == host:
            raise GavotteError(f"`{host}` has the object already", hint="name another host")
        return [source, host, *(name for name in known if name not in (source, host))]

    @property
    def copy(self) -> str:
        """Path of the copy on its host.

        Raises:
            GavotteError: as `names` does.
        """
        host = self.names[1]
        return output_paths(self.output, [host])[host]


@dataclass(frozen=True)
class PullResult(Tabular):
    """Outcome of a pull.

    Attributes:
        bytes: size of the object.
        cached_bytes: bytes that the host's own cache, or an earlier attempt, had.
        sent_bytes: payload that each other host has sent.
        elapsed_s: from the start of the transfer until the copy was complete.
        checksum: BLAKE3 of the hashes of all blocks; hexadecimal.
        changes: hosts that stopped serving, with reasons.
        warnings: what may have made it slow, one line each.
        encrypted: whether blocks were encrypted between hosts.
    """

    bytes: int
    cached_bytes: int
    sent_bytes: dict[str, int]
    elapsed_s: float
    checksum: str
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    encrypted: bool = False

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per host that has sent blocks: sender, bytes."""
        return [{"sender": name, "bytes": sent} for name, sent in self.sent_bytes.items()]


def pull(question: PullQuestion, progress: Progress | None = None) -> PullResult:
    """Copy an object to one host, from the nearest hosts whose caches have its blocks.

    Blocks that the host's own cache has are not sent. It has all of the copy's blocks afterwards. Every block is
    checked against its hash where it is read from a cache, and where it arrives.

    Args:
        question: what to copy where.
        progress: called with the bytes that the host has, and all bytes.

    Raises:
        GavotteError: when hosts and paths do not belong together.
        AgentError: when the copy cannot be completed, e.g. because the host has no space for it.
    """
    source, host, *_ = question.names
    path = question.copy
    budget = Budget(max_bytes=1 << 62, max_seconds=question.max_seconds + READ_S)
    purpose = f"pull {PurePosixPath(question.path).name}"
    with enrolled(question.inventory, budget, purpose=purpose, shared=True) as fleet:
        for name in (source, host):
            if name in fleet.missing:
                raise AgentError(f"{name} cannot be used: {fleet.missing[name]}")
        check_room(fleet, source, question.path, {host: path})
        manifest = cut_for_caches(fleet, source, question.path)
        return _Pulling(fleet, question, manifest, path, progress or _nothing).run()


class _Pulling:
    """One pull in progress.

    1. The source, the host and all other hosts report which blocks they have.
    2. Each block that the host lacks is assigned to one host that has it: to a cache before the source, to a near cache
       before a far one, and to the one that ends first by its rate.
    3. If a host stops serving, its blocks are assigned again.
    """

    def __init__(
        self, fleet: Fleet, question: PullQuestion, manifest: pb.ManifestReply, path: str, progress: Progress
    ) -> None:
        self._fleet = fleet
        self._question = question
        self._source, self._host, *others = question.names
        self._others = [name for name in others if name not in fleet.missing]
        self._manifest = manifest
        self._path = path
        self._progress = progress
        self._count = len(manifest.hashes) // 32
        self._have: dict[str, Blocks] = {}
        self._sent: dict[str, int] = {}
        self._fed: set[str] = set()
        self._changes: list[str] = []
        self._cached_bytes = 0
        self._nearness = Nearness(question.network, self._host, question.names)

    def run(self) -> PullResult:
        """Run until the copy is complete."""
        begin_s, start_s, kept_s = time.monotonic(), None, None
        names = [self._source, self._host, *self._others]
        expected = set(names)
        stream = self._fleet.broadcast(
            {name: self._request(name) for name in names},
            deadline_s=self._question.max_seconds + READ_S,
            silence_s=lambda: READ_S if start_s is None else SILENCE_S,
            joining=dict,
        )
        with closing(stream) as replies:  # type: ignore[type-var]
            for name, reply in replies:
                now_s = time.monotonic()
                kept = self._heard(name, reply)
                if kept:
                    kept_s = now_s
                expected.discard(name)
                patient = now_s < begin_s + LOOK_S and bool(expected - {self._source, self._host})
                if start_s is None and not patient and not expected & {self._source, self._host}:
                    self._assign()
                    self._fleet.start([self._source], self._fleet.run_id)
                    start_s = time.monotonic()
                if kept_s is not None and (now_s > kept_s + LAST_WORD_S or self._all_reported(name, kept=kept)):
                    break
                if now_s > begin_s + self._question.max_seconds:
                    raise AgentError(f"the pull took longer than {self._question.max_seconds:g} s")
        if kept_s is None:
            raise AgentError(f"{self._host}: its agent no longer answers")
        return PullResult(
            self._manifest.bytes,
            self._cached_bytes,
            {name: sent for name, sent in self._sent.items() if sent},
            max(0.0, kept_s - (start_s or kept_s)),
            _core.blocks_checksum(self._manifest.hashes).hex(),
            self._changes,
            self._fleet.warnings,
            self._question.encrypt,
        )

    def _request(self, name: str) -> pb.BroadcastRequest:
        cache, source = self._question.cache, name == self._source
        return pb.BroadcastRequest(
            run_id=self._fleet.run_id,
            broadcast_id=self._fleet.run_id,
            path=self._question.path if source else self._path if name == self._host else "",
            source=source,
            manifest=self._manifest,
            piece_bytes=ASSUMED_PIECE_BYTES,
            report_s=REPORT_S,
            congestion=CONGESTION,
            cache="" if source else cache.on(name),
            cache_bytes=cache.most_bytes,
            cached=name not in (self._source, self._host),
            encrypt=self._question.encrypt,
        )

    def _heard(self, name: str, reply: pb.BroadcastReply | AgentError) -> bool:
        """Handle an agent's reply. Return whether the copy is complete."""
        if isinstance(reply, AgentError):
            self._lose(name, reply.message)
        elif reply.HasField("failed"):
            self._lose(name, reply.failed.error)
        elif reply.HasField("opened"):
            self._have[name] = self._read(reply.opened.have)
            if name == self._host:
                self._cached_bytes = reply.opened.bytes
        elif reply.HasField("progress"):
            self._sent[name] = reply.progress.sent_bytes
            if name == self._host:
                self._have[name] = self._read(reply.progress.have)
                self._progress(reply.progress.bytes, self._manifest.bytes)
        elif reply.HasField("broken"):
            self._lose(reply.broken.parent, reply.broken.error)
        return not isinstance(reply, AgentError) and reply.HasField("kept")

    def _all_reported(self, name: str, *, kept: bool) -> bool:
        """Return whether each host that served has reported since the copy was complete."""
        if kept:
            self._waiting = set(self._fed)
        self._waiting.discard(name)
        return not self._waiting

    def _lose(self, name: str, why: str) -> None:
        """Continue without a host.

        Raises:
            AgentError: when it is the one that gets the copy, or no other host has the blocks.
        """
        if name == self._host:
            raise AgentError(f"{name}: {why}")
        served = name in self._fed
        self._have.pop(name, None)
        self._fed.discard(name)
        if served:
            self._changes.append(f"{name} no longer serves blocks: {why}")
            self._assign()
        elif name == self._source and self._fed:
            self._changes.append(f"{name} is lost: {why}")

    def _assign(self) -> None:
        """Let the host get each missing block from one of the others.

        Raises:
            AgentError: when no host has a block.
        """
        missing = np.flatnonzero(~self._have[self._host])
        shares = shared_out(missing.tolist(), self._have, self._host, self._source, self._nearness.rate_bps)
        if shares is None:
            raise AgentError(f"no host has all blocks of {self._question.path} any more")
        self._fed = set(shares)
        feeds = []
        for parent, blocks in shares.items():
            wanted = np.zeros(self._count, bool)
            wanted[blocks] = True
            feeds.append(pb.Feed(parent=parent, blocks=np.packbits(wanted, bitorder="little").tobytes()))
        if not feeds:
            return
        request = pb.SpliceRequest(run_id=self._fleet.run_id, broadcast_id=self._fleet.run_id, feeds=feeds)
        for name, error in self._fleet.splice({self._host: request}, SPLICE_S).items():
            raise AgentError(f"{name}: {error}")

    def _read(self, have: bytes) -> Blocks:
        return np.unpackbits(np.frombuffer(have, np.uint8), count=self._count, bitorder="little").astype(bool)


class Nearness:
    """Rates by which hosts send to one host, and which share the innermost group with it."""

    def __init__(self, network: Network | None, host: str, names: Sequence[str]) -> None:
        self._rates = dict.fromkeys(names, 1.0)
        if network is None:
            return
        network = spelled_network(network, names)
        if host not in network.names:
            return
        at = {name: index for index, name in enumerate(network.names)}
        near = min((group.members for group in network.groups if host in group.members), key=len, default=())
        for name in names:
            if name not in at or name == host:
                continue
            egress_bps = network.hosts[at[name]].egress_bps
            pair_bps = network.pair_bps(at[name], at[host])
            known = [rate for rate in (egress_bps, pair_bps) if rate]
            # A host of another rack serves only what none of this rack has, or so little that it hardly matters.
            self._rates[name] = min(known, default=1e9) * (1.0 if name in near or not near else FAR)

    def rate_bps(self, name: str) -> float:
        """Return the rate by which a host counts when blocks are shared out."""
        return self._rates[name]


FAR = 1e-3
"""Share of its rate by which a host counts that is not in the innermost group of the host that pulls."""


def shared_out(
    missing: Sequence[int],
    have: Mapping[str, Blocks],
    host: str,
    source: str,
    rate_bps: Callable[[str], float],
) -> dict[str, list[int]] | None:
    """Return which host sends which blocks; None if no host has one of them.

    A block comes from the source only if no cache has it. Of several caches, the one sends it that would end first.

    Args:
        missing: blocks that the host lacks.
        have: blocks that each host has.
        host: the host that lacks them.
        source: the host that has the object.
        rate_bps: rate at which a host sends.
    """
    shares: dict[str, list[int]] = {}
    for block in missing:
        holders = [name for name, blocks in have.items() if name not in (host, source) and blocks[block]]
        if not holders and source in have:
            holders = [source]
        if not holders:
            return None
        best = min(holders, key=lambda name: ((len(shares.get(name, ())) + 1) / rate_bps(name), name))
        shares.setdefault(best, []).append(block)
    return shares


def _nothing(_done: int, _all: int) -> None:
    pass
