"""A transfer of the controller's queue: its request and its progress."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

from gavotte.errors import GavotteError
from gavotte.formats.parts.byte_matrix import MOST_BYTES, HostBytes

State = Literal["queued", "running", "done", "failed", "cancelled"]
STATES: tuple[State, ...] = ("queued", "running", "done", "failed", "cancelled")
MOST_DEADLINE_S = 1e9
"""Longest deadline of a transfer."""

OVER: frozenset[State] = frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True)
class Copies:
    """The copies that a broadcast of the queue makes.

    Attributes:
        path: absolute path of the object at the source.
        source: the host that has it.
        output: absolute path of the copies, with `{host}` for each receiver's name.
        mechanism: how they are distributed.
        elsewhere: receiver to the path of its copy, if it differs.
    """

    path: str
    source: str
    output: str
    mechanism: str = "auto"
    elsewhere: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Copied:
    """Outcome of a broadcast for one receiver, with the fields of `transfer.Receiver`."""

    host: str
    finish_s: float | None
    ok: bool
    error: str
    joined_s: float | None


@dataclass(frozen=True)
class TransferOptions:
    """Who submits a transfer, and how its bytes travel.

    Attributes:
        user: its owner.
        encrypt: whether its bytes are encrypted between hosts.
    """

    user: str = ""
    encrypt: bool = False


@dataclass(frozen=True)
class Transfer:
    """One transfer: a shuffle, or a broadcast if it has copies to make.

    Attributes:
        id: its number in the queue.
        name: for people.
        user: its owner.
        priority_class: 0 = the highest.
        weight: its share where weights count.
        flows: bytes from host to host. For a broadcast: the size of the object, from the source to each receiver, and 0
            until the source has reported it.
        moved: bytes of each flow that have been sent; empty = none. For a broadcast: what each receiver has.
        state: how far it is.
        submitted_s: Unix time.
        started_s: Unix time of the first start; None = not yet.
        finished_s: Unix time; None = not over.
        error: why it failed.
        copies: the copies that a broadcast makes; None = it is a shuffle.
        receivers: outcome of each receiver, once a broadcast is over.
        deadline_s: seconds after its submission by which it has to be done; None = no deadline.
        guaranteed: whether its deadline was promised when it was submitted.
        encrypt: whether its bytes are encrypted between hosts.
    """

    id: int
    name: str
    user: str
    priority_class: int
    weight: float
    flows: tuple[HostBytes, ...]
    moved: tuple[int, ...] = ()
    state: State = "queued"
    submitted_s: float = 0.0
    started_s: float | None = None
    finished_s: float | None = None
    error: str = ""
    copies: Copies | None = None
    receivers: tuple[Copied, ...] = ()
    deadline_s: float | None = None
    guaranteed: bool = False
    encrypt: bool = False

    @property
    def kind(self) -> str:
        """Kind of the transfer: `shuffle` or `broadcast`."""
        return "shuffle" if self.copies is None else "broadcast"

    @property
    def bytes(self) -> int:
        """Payload of all flows."""
        return sum(flow.bytes for flow in self.flows)

    @property
    def moved_bytes(self) -> int:
        """Payload bytes that have been sent."""
        return sum(self.moved)

    @property
    def over(self) -> bool:
        """Whether the transfer has ended."""
        return self.state in OVER

    @property
    def in_time(self) -> bool | None:
        """Whether it was done by its deadline; None without a deadline, and before it is over."""
        if self.deadline_s is None or self.finished_s is None:
            return None
        return self.state == "done" and self.finished_s - self.submitted_s <= self.deadline_s

    def left(self) -> list[int]:
        """Return the bytes of each flow that have not been sent."""
        moved = self.moved or (0,) * len(self.flows)
        return [flow.bytes - sent for flow, sent in zip(self.flows, moved, strict=True)]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON, without the flows."""
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "user": self.user,
            "state": self.state,
            "class": self.priority_class,
            "weight": self.weight,
            "bytes": self.bytes,
            "moved_bytes": self.moved_bytes,
            "submitted_s": self.submitted_s,
            "started_s": self.started_s,
            "finished_s": self.finished_s,
            "completion_s": None if self.finished_s is None else self.finished_s - self.submitted_s,
            "deadline_s": self.deadline_s,
            "guaranteed": self.guaranteed,
            "in_time": self.in_time,
            "encrypted": self.encrypt,
            "error": self.error,
            "receivers": [asdict(each) for each in self.receivers],
        }

    def joined(self, host: str, output: str = "") -> Transfer:
        """Return a broadcast with one more receiver, whose copy may have its own path.

        Raises:
            GavotteError: when it is a shuffle or over, or the host has the object or is a receiver already.
        """
        copies = self.copies
        if copies is None:
            raise GavotteError(f"transfer {self.id} is a shuffle", hint="hosts join broadcasts")
        if self.over:
            raise GavotteError(f"transfer {self.id} is {self.state}", hint="submit a new broadcast to the host")
        if host == copies.source:
            raise GavotteError(f"`{host}` has the object of transfer {self.id}", hint="name another host")
        if any(flow.target == host for flow in self.flows):
            raise GavotteError(f"`{host}` is a receiver of transfer {self.id} already", hint="name another host")
        if output:
            copies = replace(copies, elsewhere=copies.elsewhere | {host: output})
        flow = HostBytes(copies.source, host, self.flows[0].bytes)
        moved = (*self.moved, 0) if self.moved else ()
        return replace(self, flows=(*self.flows, flow), moved=moved, copies=copies)


class TransferQueue(Protocol):
    """Storage for a controller's transfers. Calls come from several threads."""

    def add(self, transfer: Transfer) -> Transfer:
        """Store a new transfer and give it a number."""

    def save(self, transfer: Transfer) -> None:
        """Store the new state of a transfer."""

    def all(self) -> list[Transfer]:
        """Return all transfers, by number."""


class MemoryQueue:
    """Queue of transfers in memory, which ends with its process."""

    def __init__(self) -> None:
        self._kept: dict[int, Transfer] = {}

    def add(self, transfer: Transfer) -> Transfer:
        """Store a new transfer and give it a number."""
        numbered = replace(transfer, id=len(self._kept) + 1)
        self._kept[numbered.id] = numbered
        return numbered

    def save(self, transfer: Transfer) -> None:
        """Store the new state of a transfer."""
        self._kept[transfer.id] = transfer

    def all(self) -> list[Transfer]:
        """Return all transfers, by number."""
        return list(self._kept.values())


def checked(flows: Sequence[HostBytes], *, weight: float, priority_class: int, deadline_s: float | None = None) -> None:
    """Refuse a request that no controller can carry out.

    Raises:
        GavotteError: naming the part.
    """
    if not flows:
        raise GavotteError("a transfer without flows", hint="give at least one")
    for flow in flows:
        if not 0 <= flow.bytes <= MOST_BYTES:
            raise GavotteError(
                f"{flow.bytes} bytes from `{flow.source}` to `{flow.target}`", hint=f"use 0 to {MOST_BYTES}"
            )
    if not 1e-3 <= weight <= 1e3:
        raise GavotteError(f"the weight {weight} is out of range", hint="use 0.001 to 1000")
    if not 0 <= priority_class < 1000:
        raise GavotteError(f"the class {priority_class} is out of range", hint="use 0, the highest, to 999")
    if deadline_s is not None and not 0 < deadline_s <= MOST_DEADLINE_S:
        raise GavotteError(f"the deadline {deadline_s} s is out of range", hint=f"use up to {MOST_DEADLINE_S:g} s")


def copies_to_text(copies: Copies | None) -> str:
    """Return the text that a store keeps for copies."""
    return "" if copies is None else json.dumps(asdict(copies))


def copies_from_text(text: str) -> Copies | None:
    """Read the text of `copies_to_text`."""
    return Copies(**json.loads(text)) if text else None


def receivers_to_text(receivers: Sequence[Copied]) -> str:
    """Return the text that a store keeps for receivers."""
    return json.dumps([asdict(each) for each in receivers]) if receivers else ""


def receivers_from_text(text: str) -> tuple[Copied, ...]:
    """Read the text of `receivers_to_text`."""
    return tuple(Copied(**each) for each in json.loads(text)) if text else ()


def flows_to_text(flows: Sequence[HostBytes]) -> str:
    """Return the text that a store keeps for flows."""
    return json.dumps([[flow.source, flow.target, flow.bytes] for flow in flows])


def flows_from_text(text: str) -> tuple[HostBytes, ...]:
    """Read the text of `flows_to_text`."""
    return tuple(HostBytes(source, target, size) for source, target, size in json.loads(text))
