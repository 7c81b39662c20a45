"""What a broadcast costs by each mechanism, priced from a Network before a byte is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network

Mechanism = Literal["auto", "chain", "tree", "binomial", "mesh", "cornet", "topology", "clustering"]
"""`auto` takes the one with the shortest predicted time."""

MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)

WORTH = 0.95
"""Racks are kept to when that should take less than this share of the time without."""

MESH_MOST = 64
"""Receivers of a mesh: each connects to all others, and of the 9,900 connections of 100, agents refused some."""

ASSUMED_PIECE_BYTES = 16 << 10
"""Where no Network says what a hop costs."""


@dataclass(frozen=True)
class BroadcastPlan:
    """How an object is to be brought to many hosts.

    Attributes:
        bytes: of the object.
        source: who has it.
        receivers: who is to have it.
        mechanism: how.
        bound_s: what any mechanism needs at least (`_core.BroadcastGround.bound`); None = nothing known limits it.
        port: what sets that bound, in words.
        predicted_s: what this mechanism should take; None = nothing is known.
        piece_bytes: what is passed on at a time.
        prices: mechanism to its predicted seconds.
        edges: parent and child of each subscription at the start; of a mesh, none.
        partitions: by host of the Network, the one that it belongs to where receivers fetch only from their own.
        ground: what it was priced on.
    """

    bytes: int
    source: str
    receivers: tuple[str, ...]
    mechanism: str
    bound_s: float | None
    port: str
    predicted_s: float | None
    piece_bytes: int
    prices: dict[str, float]
    partitions: tuple[int, ...]
    ground: _core.BroadcastGround

    def ratio(self, elapsed_s: float | None) -> float | None:
        """How many times the lower bound a time is; None where there is none."""
        return elapsed_s / self.bound_s if elapsed_s is not None and self.bound_s else None


def plan_broadcast(
    network: Network,
    source: str,
    receivers: Sequence[str],
    size_bytes: int,
    *,
    mechanism: Mechanism = "auto",
    inferred: Mapping[str, int] | None = None,
) -> BroadcastPlan:
    """Prices each mechanism on a Network and chooses.

    A pair of unknown rate counts as in `Network.cautious`; a host without a cap as fast as the median of its paths to
    other machines.

    Args:
        network: all hosts that take part, maybe more.
        source: who has the object.
        receivers: who is to have it.
        size_bytes: how large it is.
        mechanism: one of `MECHANISMS`.
        inferred: for `clustering`, the partition of each host, as `clustering.infer_partitions` tells; `topology` has
            them from the Network's groups.

    Raises:
        GavotteError: for a host that the Network does not have, or that is named twice, an unknown mechanism, or a mesh
            of more than `MESH_MOST` receivers.
    """
    if mechanism not in MECHANISMS:
        raise GavotteError(f"there is no mechanism `{mechanism}`", hint=f"use one of {', '.join(MECHANISMS)}")
    crowded = len(receivers) > MESH_MOST
    if mechanism == "mesh" and crowded:
        raise GavotteError(f"a mesh of {len(receivers)} receivers has too many connections", hint="use auto or chain")
    at = {name: index for index, name in enumerate(network.names)}
    for name in (source, *receivers):
        if name not in at:
            raise GavotteError(f"`{name}` is not a host of the Network", hint="measure it, or leave it out")
    try:
        ground = _core.BroadcastGround(_core.Network(network.cautious()), at[source], [at[name] for name in receivers])
    except ValueError as error:
        raise GavotteError(str(error), hint="name each host once") from None
    bound_s, port = ground.bound(size_bytes)
    partitions = _racks(network) if mechanism == "topology" else [(inferred or {}).get(name, 0) for name in at]
    prices = {name: (seconds, piece) for name, seconds, piece in ground.prices(size_bytes, partitions)}
    if mechanism != "topology":
        # What is not asked for is priced without knowing its partitions.
        prices["topology"] = next(
            each[1:] for each in ground.prices(size_bytes, _racks(network)) if each[0] == "topology"
        )
    able = [name for name in prices if name != "mesh" or not crowded]
    chosen = min(able, key=lambda name: prices[name][0]) if mechanism == "auto" else mechanism
    known = bound_s > 0
    if chosen == "topology" and known and prices[chosen][0] > WORTH * prices["cornet"][0]:
        # Racks that nothing slow lies between would only keep peers apart.
        partitions = [0] * len(at)
        prices[chosen] = prices["cornet"]
    predicted_s, piece_bytes = prices[chosen]
    return BroadcastPlan(
        bytes=size_bytes,
        source=source,
        receivers=tuple(receivers),
        mechanism=chosen,
        bound_s=bound_s if known else None,
        port=port,
        predicted_s=predicted_s if known else None,
        piece_bytes=piece_bytes if known else ASSUMED_PIECE_BYTES,
        prices={name: seconds for name, (seconds, _) in prices.items()} if known else {},
        partitions=tuple(partitions if mechanism in ("topology", "clustering") else [0] * len(at)),
        ground=ground,
    )


def _racks(network: Network) -> list[int]:
    """By host, a number of the groups around it: hosts within the same ones are a rack."""
    around = [
        tuple(number for number, group in enumerate(network.groups) if host.name in group.members)
        for host in network.hosts
    ]
    numbers = {groups: number for number, groups in enumerate(dict.fromkeys(around))}
    return [numbers[groups] for groups in around]


def nothing_known(names: Sequence[str]) -> Network:
    """A Network of hosts of which nothing was measured."""
    unknown: list[list[None]] = [[None] * len(names) for _ in names]
    return Network.model_validate(
        {
            "format": "gavotte/network/1",
            "hosts": [{"name": name} for name in names],
            "rate_bps": unknown,
            "latency_s": unknown,
        }
    )
