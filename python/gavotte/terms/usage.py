"""Rates that depend on how applications use a Network: credits by bytes, and pairs by connections.

1. A host with a credit sends at C or r by the bytes of all its tasks together.
2. Each transfer between two tasks is one TCP connection, and gets at most a pair's `rate_bps`. All connections between
   two hosts get at most `several_bps` together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.terms import Pair
from gavotte.terms.credit import has_credit, sent_by_hosts, with_credits


def depends_on_use(network: Network) -> bool:
    """Whether an assignment of tasks changes the Network's rates."""
    return network.several_differ or any(has_credit(host) for host in network.hosts)


def at_best(network: Network) -> Network:
    """Return the Network with the highest rates that any use has: C of each host, and several connections a pair."""
    # Any credit outlasts one byte.
    return _fixed(with_credits(network, [1.0] * len(network.hosts)).at_several())


def before_use(network: Network, apps: Sequence[App]) -> Network:
    """Return a Network to begin a placement with, when it is not known yet which tasks share a host.

    The bytes that count on each host are those of the task that sends most. Each pair has one connection.

    Args:
        network: with credits.
        apps: what is to run.
    """
    return _fixed(with_credits(network, [_most_bytes(apps)] * len(network.hosts)))


def _most_bytes(apps: Sequence[App]) -> int:
    """Return the bytes of the task that sends most."""
    sent: defaultdict[tuple[str, str], int] = defaultdict(int)
    for app in apps:
        for transfer in app.transfer:
            sent[app.name, transfer.source] += transfer.bytes
    return max(sent.values(), default=0)


def as_used(network: Network, apps: Sequence[App], assignment: Mapping[str, str]) -> Network:
    """Return a Network whose rates are those that applications get under an assignment.

    1. The bytes that count on a host are what its tasks send to other machines, all phases together. A host that sends
       nothing has the rate of `before_use`.
    2. The largest transfer between two hosts takes at least its bytes / `rate_bps`, and all of a phase take at least
       their bytes / `several_bps`. The pair's rate is its bytes divided by the sum of these times over all phases.

    Args:
        network: as measured.
        apps: what runs.
        assignment: task to host; with several applications a task is `app/task`.
    """
    if not depends_on_use(network):
        return network
    at = {name: index for index, name in enumerate(network.names)}
    flows: defaultdict[tuple[Pair, int], list[int]] = defaultdict(list)
    for pair, phase, size in _connections(apps, assignment, at):
        flows[pair, phase].append(size)
    sent = sent_by_hosts(network, ((*pair, sum(sizes)) for (pair, _), sizes in flows.items()))
    most_bytes = _most_bytes(apps)
    network = with_credits(network, [size or most_bytes for size in sent])
    return _fixed(network.with_rates(_pair_rates(network, flows)) if network.several_differ else network)


def _fixed(network: Network) -> Network:
    """Return the Network without rates of several connections, since what each pair gets is known now."""
    return network.model_copy(update={"several_bps": [], "connections": []}) if network.several_bps else network


def _connections(
    apps: Sequence[App], assignment: Mapping[str, str], at: Mapping[str, int]
) -> Iterator[tuple[Pair, int, int]]:
    """Yield the hosts, the phase and the bytes of each connection between two hosts: one for each two tasks."""
    for app in apps:
        prefix = f"{app.name}/" if len(apps) > 1 else ""
        sizes: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        for transfer in app.transfer:
            sizes[transfer.source, transfer.target, transfer.phase] += transfer.bytes
        for (source, target, phase), size in sizes.items():
            m, n = (at[assignment[prefix + task]] for task in (source, target))
            if m != n and size:
                yield (m, n), phase, size


def _pair_rates(network: Network, flows: Mapping[tuple[Pair, int], Sequence[int]]) -> dict[Pair, float]:
    sums: defaultdict[Pair, int] = defaultdict(int)
    times_s: defaultdict[Pair, float] = defaultdict(float)
    for ((m, n), _), sizes in flows.items():
        one_bps, several_bps = network.pair_bps(m, n) or math.inf, network.pair_several_bps(m, n) or math.inf
        sums[m, n] += sum(sizes)
        times_s[m, n] += 8 * max(max(sizes) / one_bps, sum(sizes) / several_bps)
    return {pair: 8 * sums[pair] / seconds for pair, seconds in times_s.items() if seconds > 0}
