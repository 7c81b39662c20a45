"""Predict the time of a broadcast by each mechanism from a Network, before a byte is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, get_args

from gavotte import _core
from gavotte.errors import GavotteError, UnsupportedError
from gavotte.formats.network import Network
from gavotte.terms.credit import with_credits
from gavotte.terms.goodput import MTU_BYTES, TCP_PAYLOAD_BYTES, tcp_payload_bytes
from gavotte.transfer.packing import GAP, MANY_MEMBERS, WIDE_GAP, PackedTree, pack
from gavotte.transfer.spelling import spelled_network

Mechanism = Literal["auto", "chain", "tree", "binomial", "mesh", "packing", "cornet", "topology", "clustering"]
"""`auto` chooses the mechanism with the shortest predicted time."""

MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)

WORTH = 0.95
"""Receivers fetch only within their rack if that should take less than this share of the time without racks."""

NEAR = 1.02
"""`auto` packs no trees if the fastest other mechanism takes at most this many times the bound."""

CORNETS = ("cornet", "topology", "clustering")
"""Mechanisms in which receivers choose themselves what they fetch. `auto` takes none of them."""

REHEARSALS = 3
"""Times that a Cornet is played to predict it. Single plays differ by 10 %."""

CORNET_LOSS = 1.0
"""Measured time of a Cornet divided by its played time."""

REHEARSED_S = 10.0
"""Longest bound of an object that is played. A larger object takes longer in proportion: its blocks are larger."""

REHEARSED_MOST = 100
"""Most receivers of a Cornet that is played."""

WORTH_S = 0.1
"""`auto` packs no trees if they could save less than this: HiGHS has to be loaded, and solves for some time."""

MESH_MOST = 64
"""Most receivers of a mesh. Each connects to all others; of the 9,900 connections of 100, agents refused some."""

ASSUMED_PIECE_BYTES = 16 << 10
"""Piece size if no Network gives the cost of a hop."""


FAR_S = 0.004
"""Round trip of a far path."""

FIRST_WINDOW_PACKETS = 10
"""Packets that a new TCP connection sends before the first acknowledgement."""

PIECE_HEADERS_BYTES = 144
"""Room for the headers of a block's pieces: 12 bytes for each of at most 12 pieces."""


@dataclass(frozen=True)
class BroadcastPlan:
    """Plan of a broadcast: the hosts, the mechanism and its predicted time.

    Attributes:
        bytes: size of the object.
        source: host that has it.
        receivers: receiving hosts.
        mechanism: how it is sent.
        bound_s: least time of any mechanism by the Network's ports (`_core.BroadcastGround.bound`), or its cuts if
            trees were packed (`packing.pack`); None = nothing known limits it, or no Network was given.
        port: the port that sets that bound, or `estimate_s`, in words.
        predicted_s: predicted time of this mechanism; None = nothing is known.
        piece_bytes: bytes that a host forwards at a time.
        prices: mechanism to its predicted seconds.
        edges: parent and child of each subscription at the start; none for a mesh.
        partitions: partition of each host of the Network, if receivers fetch only from their own.
        ground: the state from which it was predicted.
        estimate_s: least time of any mechanism by a probe of a moment, where no Network was given. It is no bound,
            since ports may be faster or slower afterwards; None = nothing was probed.
        trees: trees of a packing; none for other mechanisms.
        warnings: what was not tried, and why.
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
    estimate_s: float | None = None
    trees: tuple[PackedTree, ...] = ()
    warnings: tuple[str, ...] = ()

    def ratio(self, elapsed_s: float | None) -> float | None:
        """Return a time divided by the lower bound; None without a bound."""
        return elapsed_s / self.bound_s if elapsed_s is not None and self.bound_s else None


def plan_broadcast(
    network: Network,
    source: str,
    receivers: Sequence[str],
    size_bytes: int,
    *,
    mechanism: Mechanism = "auto",
    inferred: Mapping[str, int] | None = None,
    probed: bool = False,
) -> BroadcastPlan:
    """Predict the time of each mechanism on a Network, and choose one.

    A pair of unknown rate counts as in `Network.cautious`. A host with a credit has its average rate over the object's
    size, since most mechanisms let each host send it once. A host without a cap counts as fast as the median of its
    paths to other machines.

    Args:
        network: all hosts that take part, maybe more.
        source: host that has the object.
        receivers: receiving hosts.
        size_bytes: size of the object.
        mechanism: one of `MECHANISMS`.
        inferred: for `clustering`, the partition of each host from `clustering.infer_partitions`. `topology` uses the
            Network's groups.
        probed: whether the Network comes from a probe of a moment, so that it gives an estimate and no bound.

    Raises:
        GavotteError: for a host that the Network does not have, or that is named twice, or an unknown mechanism. Also
            for a mesh of more than `MESH_MOST` receivers, or a packing where nothing known limits.
        UnsupportedError: for a packing without SciPy.
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
    network = with_credits(network, [float(size_bytes)] * len(network.hosts))
    try:
        ground = _core.BroadcastGround(_core.Network(network.cautious()), at[source], [at[name] for name in receivers])
    except ValueError as error:
        raise GavotteError(str(error), hint="name each host once") from None
    bound_s, port = ground.bound(size_bytes)
    partitions = _racks(network) if mechanism == "topology" else [(inferred or {}).get(name, 0) for name in at]
    prices = {name: (seconds, piece) for name, seconds, piece in ground.prices(size_bytes, partitions)}
    if mechanism != "topology":
        # A mechanism that was not requested is priced without its partitions.
        prices["topology"] = next(
            each[1:] for each in ground.prices(size_bytes, _racks(network)) if each[0] == "topology"
        )
    if mechanism in CORNETS and bound_s > 0 and len(receivers) <= REHEARSED_MOST:
        # `topology` is compared with `cornet` below.
        for name in dict.fromkeys(("cornet", mechanism)):
            kept = [0] * len(at) if name == "cornet" else partitions
            prices[name] = (_rehearsed_s(ground, name, size_bytes, bound_s, kept), prices[name][1])
    able = [name for name in prices if name not in CORNETS and (name != "mesh" or not crowded)]
    trees: tuple[PackedTree, ...] = ()
    warnings: tuple[str, ...] = ()
    least_s = min(prices[name][0] for name in able)
    # Trees exceed the rates of a probe, and others replace them while blocks arrive.
    adapts = probed and 1 < len(receivers) < MANY_MEMBERS
    near = not adapts and (least_s <= NEAR * bound_s or least_s - bound_s <= WORTH_S)
    if mechanism == "packing" or (mechanism == "auto" and bound_s > 0 and not near):
        members = [at[name] for name in (source, *receivers)]
        try:
            packing = pack(ground, members)
        except UnsupportedError as error:
            if mechanism == "packing":
                raise
            packing = None
            warnings = (f"no trees were packed, which may be faster: {error}",)
        if packing is None and mechanism == "packing":
            raise GavotteError("no trees can be packed", hint="use auto, or fewer receivers, and a Network with rates")
        if packing is not None:
            trees = packing.trees
            prices["packing"] = ground.packing_price(size_bytes, [(tree.rate_bps, tree.edges) for tree in trees])
            able.append("packing")
            gap = GAP if len(members) <= MANY_MEMBERS else WIDE_GAP
            # A host without a cap may be as fast as its best path, so only then the bound needs trees of its own.
            known = all(host.egress_bps and host.ingress_bps for host in network.hosts)
            loosest = packing if known else pack(ground, members, best=True)
            if loosest is not None and loosest.bound_s(size_bytes) > (1 + gap) * bound_s:
                bound_s, port = loosest.bound_s(size_bytes), loosest.limit
    chosen = min(able, key=lambda name: prices[name][0]) if mechanism == "auto" else mechanism
    if adapts and trees and mechanism == "auto":
        chosen = "packing"
    limited = bound_s > 0
    if chosen == "topology" and limited and prices[chosen][0] > WORTH * prices["cornet"][0]:
        # Racks without a slow link between them would only keep peers apart.
        partitions = [0] * len(at)
        prices[chosen] = prices["cornet"]
    predicted_s, piece_bytes = prices[chosen]
    return BroadcastPlan(
        bytes=size_bytes,
        source=source,
        receivers=tuple(receivers),
        mechanism=chosen,
        bound_s=bound_s if limited and not probed else None,
        port=port,
        predicted_s=predicted_s if limited else None,
        piece_bytes=piece_bytes if limited else ASSUMED_PIECE_BYTES,
        prices={name: seconds for name, (seconds, _) in prices.items()} if limited else {},
        partitions=tuple(partitions if mechanism in ("topology", "clustering") else [0] * len(at)),
        ground=ground,
        estimate_s=bound_s if limited and probed else None,
        trees=trees if chosen == "packing" else (),
        warnings=warnings,
    )


def far_block_bytes(network: Network, names: Sequence[str]) -> int:
    """Return the size of the largest block for hosts that are far from each other.

    The first window of a new connection holds such a block with its headers, on each path between these hosts. With one
    packet more, each hop would add a round trip.
    """
    at = [index for index, name in enumerate(spelled_network(network, names).names) if name in names]
    payloads_bytes = (
        tcp_payload_bytes(network.pair_mtu_bytes(m, n) or MTU_BYTES, ipv6=network.hosts[n].ipv6)
        for m in at
        for n in at
        if m != n
    )
    return FIRST_WINDOW_PACKETS * min(TCP_PAYLOAD_BYTES, *payloads_bytes) - PIECE_HEADERS_BYTES


def far_apart(network: Network, names: Sequence[str]) -> bool:
    """Return whether two of these hosts are far from each other by the Network's latencies."""
    at = [index for index, name in enumerate(spelled_network(network, names).names) if name in names]
    round_trips_s = (
        (network.pair_latency_s(m, n) or 0.0) + (network.pair_latency_s(n, m) or 0.0) for m in at for n in at if m < n
    )
    return max(round_trips_s, default=0.0) >= FAR_S


def _rehearsed_s(
    ground: _core.BroadcastGround, mechanism: str, size_bytes: int, bound_s: float, partitions: Sequence[int]
) -> float:
    """Return the predicted time of a Cornet."""
    scale = max(1.0, bound_s / REHEARSED_S)
    part_bytes = max(1, int(size_bytes / scale))
    plays_s = [ground.rehearse(mechanism, part_bytes, partitions, seed) for seed in range(REHEARSALS)]
    return max(bound_s, CORNET_LOSS * median(plays_s) * scale)


def _racks(network: Network) -> list[int]:
    """Return, by host, a number of the groups around it: hosts within the same groups are a rack."""
    around = [
        tuple(number for number, group in enumerate(network.groups) if host.name in group.members)
        for host in network.hosts
    ]
    numbers = {groups: number for number, groups in enumerate(dict.fromkeys(around))}
    return [numbers[groups] for groups in around]


def nothing_known(names: Sequence[str]) -> Network:
    """Return a Network of hosts without any measured value."""
    unknown: list[list[None]] = [[None] * len(names) for _ in names]
    return Network.model_validate(
        {
            "format": "gavotte/network/1",
            "hosts": [{"name": name} for name in names],
            "rate_bps": unknown,
            "latency_s": unknown,
        }
    )
