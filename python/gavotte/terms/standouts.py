"""Say in plain sentences what stands out in a network: slow hosts, and links that hosts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import Floats
from gavotte.formats.network import Network
from gavotte.formats.parts.counting import listed
from gavotte.formats.parts.rates import format_rate, in_one_unit
from gavotte.terms.limits import ends_of, limits_of

SLOWER = 1.5
"""A host whose best rate is this many times below the median of the others is slow."""
FEWEST = 3
"""Hosts from which on one can be slower than the others."""
EVEN = 0.9
"""Hosts whose best rates lie this close to each other, lowest to highest, are equally fast."""
LINKS = 6
"""Most shared links that get a sentence each."""


def standouts(network: Network) -> list[str]:
    """Return what stands out in a Network, one sentence each: slow hosts first, then links that hosts share."""
    machines = [host.machine or host.name for host in network.hosts]
    if network.any_rate:
        slow = host_sentences(network.names, network.to_numpy(), machines)
    else:
        # A Network without pairs may have very many hosts: no matrix of them fits into memory.
        caps = ([host.egress_bps for host in network.hosts], [host.ingress_bps for host in network.hosts])
        sends_bps, receives_bps = (np.array([cap or np.nan for cap in each]) for each in caps)
        slow = _sentences(network.names, {"sends": sends_bps, "receives": receives_bps})
    return [*slow, *link_sentences(network)]


def host_sentences(names: Sequence[str], rates_bps: Floats, machines: Sequence[object] = ()) -> list[str]:
    """Return which hosts send or receive much slower than the others, or that none does.

    Each host counts by its best rate to (from) any host on another machine. A slow peer, or a link that it shares
    on the way to some hosts, therefore does not make a host slow.

    Args:
        names: names of the N hosts.
        rates_bps: (N, N), row = source, NaN = unknown.
        machines: the machine of each host; hosts of one machine are very fast to each other. Empty = one host each.
    """
    machine = np.unique([str(each) for each in machines or names], return_inverse=True)[1]
    outside = np.where(machine[:, None] != machine[None, :], rates_bps, np.nan)
    return _sentences(names, {"sends": _best(outside, axis=1), "receives": _best(outside, axis=0)})


def _sentences(names: Sequence[str], best: dict[str, Floats]) -> list[str]:
    """Return the sentences about hosts from the best rate of each, for each verb."""
    slow = {verb: _slow(rates) for verb, rates in best.items()}
    sentences = []
    if slow["sends"] and slow["sends"] == slow["receives"]:
        factors = [factor for verb in best for factor in _factors(best[verb], slow[verb])]
        sentences.append(_sentence(names, slow["sends"], "sends and receives", factors, best["sends"]))
    else:
        for verb, rates in best.items():
            if slow[verb]:
                sentences.append(_sentence(names, slow[verb], verb, _factors(rates, slow[verb]), rates))
    return sentences or _even(best["sends"])


def link_sentences(network: Network) -> list[str]:
    """Return which hosts share how much out of, or into, a machine, a rack or another group."""
    limits = limits_of(network)
    twins = {end: ends_of(verdict) for verdict in network.verdicts if verdict.rate_bps for end in ends_of(verdict)}
    proven = {end for end, limit in limits.items() if limit.certain}
    covered: set[str] = set()
    sends_bps = {host.name: host.egress_bps for host in network.hosts}
    receives_bps = {host.name: host.ingress_bps for host in network.hosts}
    sentences = []
    for group in network.groups:
        parts: list[tuple[float, str]] = []
        for way, cap_bps, caps_bps in (("out of", group.up_bps, sends_bps), ("into", group.down_bps, receives_bps)):
            end = f"{way} {group.name}"
            known = (end in proven or not network.verdicts) and end not in covered
            if cap_bps and known and _binds(group.members, caps_bps, cap_bps):
                # Ends that no experiment can distinguish are one link, which is named once.
                covered.update(twins.get(end, [end]))
                parts.append((cap_bps, f"{way} {'it' if parts else group.name}"))
        if parts:
            shares = zip(in_one_unit([cap_bps for cap_bps, _ in parts]), (where for _, where in parts), strict=True)
            sentences.append(f"{listed(group.members)} share {' and '.join(map(' '.join, shares))}")
    if len(sentences) > LINKS:
        more = len(sentences) - LINKS
        return [
            *sentences[:LINKS],
            f"{more} more groups of hosts share links" if more > 1 else "1 more group shares links",
        ]
    return sentences


def _binds(members: Sequence[str], caps_bps: Mapping[str, float | None], limit_bps: float) -> bool:
    """Return whether the members could together use more than a group's limit."""
    caps = [caps_bps[name] for name in members]
    return len(caps) > 1 and (not all(caps) or sum(cap or 0.0 for cap in caps) > limit_bps)


def _best(rates_bps: Floats, axis: int) -> Floats:
    """Return the highest rate along an axis, NaN where none is known."""
    best = np.where(np.isnan(rates_bps), -np.inf, rates_bps).max(axis=axis)
    return np.where(np.isfinite(best), best, np.nan)


def _slow(rates_bps: Floats) -> list[int]:
    """Return the hosts that are slower than the others, if they are a minority."""
    known = np.flatnonzero(np.isfinite(rates_bps))
    if len(known) < FEWEST:
        return []
    slow = known[rates_bps[known] * SLOWER <= np.median(rates_bps[known])].tolist()
    return slow if 2 * len(slow) < len(known) else []


def _others_bps(rates_bps: Floats, slow: Sequence[int]) -> float:
    others: npt.NDArray[np.bool_] = np.isfinite(rates_bps)
    others[list(slow)] = False
    return float(np.median(rates_bps[others]))


def _factors(rates_bps: Floats, slow: Sequence[int]) -> list[float]:
    others_bps = _others_bps(rates_bps, slow)
    return [others_bps / float(rates_bps[host]) for host in slow]


def _sentence(names: Sequence[str], slow: Sequence[int], verb: str, factors: Sequence[float], rates_bps: Floats) -> str:
    """Return the sentence about the slow hosts, with their rate and that of the others."""
    verbs = verb if len(slow) == 1 else " and ".join(word.removesuffix("s") for word in verb.split(" and "))
    least, most = (f"{each:.1f}" if each < 99.5 else f"{each:.0f}" for each in (min(factors), max(factors)))
    times = most if least == most or len(slow) == 1 else f"{least} to {most}"
    own_bps = float(np.median(rates_bps[list(slow)]))
    instead = " instead of ".join(in_one_unit([own_bps, _others_bps(rates_bps, slow)]))
    return f"{listed([names[host] for host in slow])} {verbs} {times} times slower than the others: {instead}"


def _even(rates_bps: Floats) -> list[str]:
    """Return that no host stands out; empty for hosts that are too few to compare."""
    known = rates_bps[np.isfinite(rates_bps)]
    if len(known) < FEWEST:
        return []
    low, high = float(known.min()), float(known.max())
    if low >= EVEN * high:
        return [f"no host stands out: each sends at about {format_rate(float(np.median(known)))}"]
    return [f"no host stands out: they send at {' to '.join(in_one_unit([low, high]))}"]
