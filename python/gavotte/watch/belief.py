"""Convert a Network into expected times of its pairs, and update the Network after an event."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from statistics import median

from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.watch.detect import Edge
from gavotte.watch.expecting import MOVED
from gavotte.watch.loop import Event

Matrix = list[list[float | None]]

MESSAGE_BYTES = 8e6
"""Size of the transfer whose times are reported, as in the RPCA paper, section V-A."""

NEARLY_ALL = 0.65
"""Share of a group's pairs that must change for its cap to change. If one of two racks moved, alarms calibrate 75 %."""

ALIKE = 0.2
"""Largest relative difference between such changes: two rates may each be off by the 10 % that count as no change."""


def expected_times(network: Network) -> dict[Edge, float]:
    """Return the seconds of one undisturbed transfer on each pair of known rate: latency + bytes / rate.

    The transfer has `MESSAGE_BYTES`. Expected excess is left out: most transfers are undisturbed, and would all look
    faster than an expected time with excess.
    """
    names = network.names
    return {
        (names[i], names[j]): (network.pair_latency_s(i, j) or 0.0) + 8 * MESSAGE_BYTES / rate_bps
        for i in range(len(names))
        for j in range(len(names))
        if i != j and (rate_bps := network.undisturbed_bps(i, j)) is not None
    }


def renewed(network: Network, event: Event) -> Network:
    """Return the Network after an event, with new rates of the changed pairs and new caps of their hosts and groups.

    - Latencies stay. The lower end of a rate scales with the rate.
    - A host's egress (ingress) cap changes when one of its outgoing (incoming) pairs did. It scales with the best rate
      from (to) the host outside its machine, as a single pair shows no more of a cap.
    - A group's cap scales with the pairs that leave (enter) the group, if nearly all of them changed alike.
    - The `doubt` of each measured pair is removed: its rate is neither a guess nor an old value any more.
    """
    network = _sure_of(network, {*event.measured, *((move.source, move.target) for move in event.moves)})
    if not event.moves:
        return network
    at = {host.name: i for i, host in enumerate(network.hosts)}
    rates = [list(row) for row in network.rate_bps]
    lows = [list(row) for row in network.rate_low_bps]
    senders, receivers = set(), set()
    for move in event.moves:
        if move.source not in at or move.target not in at:
            continue
        i, j = at[move.source], at[move.target]
        transfer_s = move.after_s - (network.pair_latency_s(i, j) or 0.0)
        if transfer_s > 0:
            # The undisturbed time changed. The expected excess is a share of that time, and the share stays.
            excess = (network.excess[i][j] or 0.0) if network.excess else 0.0
            after_bps = 8 * MESSAGE_BYTES / transfer_s / (1 + excess)
            before_bps, rates[i][j] = rates[i][j], after_bps
            if lows and (low_bps := lows[i][j]) is not None:
                lows[i][j] = low_bps * after_bps / before_bps if before_bps else None
            senders.add(i)
            receivers.add(j)
    machine = [host.machine or f"host {i}" for i, host in enumerate(network.hosts)]
    outside = [[j for j in range(len(at)) if machine[j] != machine[i]] for i in range(len(at))]

    def best(matrix: list[list[float | None]], host: int, *, out: bool) -> float:
        values = [matrix[host][j] if out else matrix[j][host] for j in outside[host]]
        return max((value for value in values if value is not None), default=0.0)

    hosts = []
    for i, host in enumerate(network.hosts):
        changes: dict[str, float] = {}
        for key, touched, out in (("egress_bps", senders, True), ("ingress_bps", receivers, False)):
            cap = getattr(host, key)
            before, after = best(network.rate_bps, i, out=out), best(rates, i, out=out)
            if cap is not None and i in touched and before > 0 and after > 0:
                changes[key] = cap * after / before
                low_key = key.replace("_bps", "_low_bps")
                if (low := getattr(host, low_key)) is not None:
                    changes[low_key] = low * after / before
        hosts.append(host.model_copy(update=changes))
    groups = []
    for group in network.groups:
        inside = {at[name] for name in group.members}
        factors = {
            "up_bps": _moved_alike(
                network.rate_bps, rates, [(i, j) for i in inside for j in set(at.values()) - inside]
            ),
            "down_bps": _moved_alike(
                network.rate_bps, rates, [(i, j) for j in inside for i in set(at.values()) - inside]
            ),
        }
        caps = {key: cap * factor for key, factor in factors.items() if (cap := getattr(group, key)) is not None}
        groups.append(group.model_copy(update=caps))
    return network.model_copy(update={"rate_bps": rates, "rate_low_bps": lows, "hosts": hosts, "groups": groups})


def _sure_of(network: Network, measured: Collection[Edge]) -> Network:
    """Return the Network without the `doubt` of the measured pairs."""
    names = network.names
    doubtful = [(i, j) for i, row in enumerate(network.doubt) for j, doubt in enumerate(row) if doubt is not None]
    sure = {(i, j) for i, j in doubtful if (names[i], names[j]) in measured}
    if not sure:
        return network
    left = [[None if (i, j) in sure else doubt for j, doubt in enumerate(row)] for i, row in enumerate(network.doubt)]
    return network.model_copy(update={"doubt": left if len(sure) < len(doubtful) else []})


def _moved_alike(before: Matrix, after: Matrix, pairs: Iterable[tuple[int, int]]) -> float:
    """Return the factor by which at least `NEARLY_ALL` of the rates changed, or 1 if they did not change alike."""
    ratios = [now / was for i, j in pairs if (was := before[i][j]) and (now := after[i][j])]
    if not ratios:
        return 1.0
    factor = median(ratios)
    alike = sum(abs(ratio / factor - 1) <= ALIKE for ratio in ratios)
    return factor if abs(factor - 1) > MOVED and alike >= NEARLY_ALL * len(ratios) else 1.0


def without(network: Network, gone: Collection[str]) -> Network:
    """Return the Network of the reachable hosts. Groups without a remaining host are dropped.

    Raises:
        GavotteError: when no host is left.
    """
    stay = [i for i, host in enumerate(network.hosts) if host.name not in gone]
    if not stay:
        raise GavotteError("no host is left", hint="wait until one is back")
    return network.of_hosts(stay)
