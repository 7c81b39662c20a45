"""Rates that depend on how applications use a Network: credits by bytes, and pairs by connections.

1. A host with a credit sends at C or r by the bytes of all its tasks together.
2. Each transfer between two tasks is one TCP connection, and gets at most a pair's `rate_bps`. All connections between
   two hosts get at most `several_bps` together.
3. Messages that wait for each other take a latency each, in addition to the time of their bytes.
4. On a path that loses packets, at random or behind a policer, one connection gets what its losses leave of `rate_bps`.
5. A connection starts slowly, and its last byte arrives a latency after it was sent.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.rates import format_bytes
from gavotte.tables import matrix, nullable
from gavotte.terms import Pair
from gavotte.terms.credit import has_credit, sent_by_hosts, with_credits
from gavotte.terms.loss import with_loss
from gavotte.terms.paths import rates_bps
from gavotte.terms.ramp import QUEUE_S, starts_s

LEAST_BPS, MOST_BPS = 1.0, 1e18
"""Rates that a Network may have."""

LEAST_RAMP = 0.05
"""Where the start of the largest connection takes less than this share of its time on every path, no start counts.

Rates have such an error themselves. Within a data centre, assignments therefore change no rates.
"""

SPREAD = 0.25
"""Share by which a time with short queues must exceed that with deep ones for a warning."""


def depends_on_use(network: Network, apps: Sequence[App]) -> bool:
    """Return whether an assignment of the applications' tasks changes the Network's rates."""
    if with_loss(network).several_differ or any(has_credit(host) for host in network.hosts):
        return True
    return bool(network.latency_s) and (any(app.has_messages for app in apps) or starts_slowly(network, apps))


def starts_slowly(network: Network, apps: Sequence[App]) -> bool:
    """Return whether starting takes more than `LEAST_RAMP` of the largest connection's time on any path."""
    sizes = [size for app in apps for size in app.sizes_bytes]
    if not network.latency_s or not any(sizes):
        return False
    start_s, rate_bps = starts_s(network, max(sizes)), rates_bps(network)
    others = ~np.eye(len(network.hosts), dtype=np.bool_)
    return bool((start_s > LEAST_RAMP * (start_s + 8 * max(sizes) / rate_bps))[others].any())


def unsure_starts(network: Network, apps: Sequence[App]) -> list[str]:
    """Return a warning if the largest connection would take far less or more time with other queues; empty = no.

    1. At best, queues hold everything, so no packet of slow start is lost.
    2. At worst, they hold a fifth of what is assumed.

    Args:
        network: the measured Network.
        apps: the applications that will run.
    """
    network = with_loss(network)
    if not starts_slowly(network, apps):
        return []
    size = max(size for app in apps for size in app.sizes_bytes)
    plain_s = 8 * size / rates_bps(network)
    times_s = [plain_s + starts_s(network, size, queue_s=QUEUE_S * factor) for factor in (1.0, math.inf, 0.2)]
    spread = times_s[2] / np.maximum(times_s[1], 1e-300)
    if not spread.max() > 1 + SPREAD:
        return []
    worst = np.unravel_index(np.argmax(spread), spread.shape)
    source, target = (network.names[place] for place in worst)
    expected_s, least_s, most_s = (float(each[worst]) for each in times_s)
    return [
        f"how a far connection starts depends on queues, which are not measured: {format_bytes(size)} from {source} to "
        f"{target} take {expected_s:.3g} s, but {least_s:.3g} s with deep queues and {most_s:.3g} s with short ones"
    ]


def at_best(network: Network) -> Network:
    """Return the Network with the highest rates that any use has: C of each host, and several connections a pair."""
    # Any credit outlasts one byte.
    return _fixed(with_credits(with_loss(network), [1.0] * len(network.hosts)).at_several())


def before_use(network: Network, apps: Sequence[App]) -> Network:
    """Return a Network to begin a placement with, when it is not known yet which tasks share a host.

    1. The bytes that count on each host are those of the task that sends most.
    2. Each pair has one connection.
    3. If any transfer has messages, each pair has its rate for messages of the mean size.
    4. If connections start slowly, each pair has its rate for one connection of the mean size. Bytes are weighted
       alike, since large transfers decide.

    Args:
        network: with credits.
        apps: the applications that will run.
    """
    network = with_loss(network)
    if any(has_credit(host) for host in network.hosts):
        network = with_credits(network, [_most_bytes(apps)] * len(network.hosts))
    return _fixed(_delayed(network, apps))


def _delayed(network: Network, apps: Sequence[App]) -> Network:
    """Return the Network in which each pair has its rate for messages and connections of mean size."""
    if not network.latency_s:
        return network
    chatty, slow = any(app.has_messages for app in apps), starts_slowly(network, apps)
    if not chatty and not slow:
        return network
    rate_bps = matrix(network.rate_bps) if network.any_rate else np.full((len(network.hosts),) * 2, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        delayed_bps = rate_bps
        if chatty:
            count = sum(transfer.messages or 0 for app in apps for transfer in app.transfer)
            mean_bits = 8 * sum(app.total_bytes for app in apps) / count
            delayed_bps = mean_bits / (np.nan_to_num(matrix(network.latency_s)) + mean_bits / delayed_bps)
        if slow:
            sizes = np.array([size for app in apps for size in app.sizes_bytes], dtype=np.float64)
            mean_bytes = (sizes**2).sum() / sizes.sum()
            start_s = starts_s(network, mean_bytes)
            delayed_bps = 8 * mean_bytes / (start_s + 8 * mean_bytes / delayed_bps)
    return network.model_copy(update={"rate_bps": nullable(np.clip(delayed_bps, LEAST_BPS, MOST_BPS))})


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
    2. Each transfer between two hosts takes at least its bytes / `rate_bps`. In addition, each of its messages takes a
       latency, or its connection takes the time of its start if that is longer: the window grows while messages wait.
    3. All of a phase take at least their bytes / `several_bps`. The pair's rate is its bytes divided by the sum of
       these times over all phases.

    Args:
        network: the measured Network.
        apps: the applications that run.
        assignment: task to host; with several applications a task is `app/task`.
    """
    network = with_loss(network)
    if not depends_on_use(network, apps):
        return network
    network = as_credited(network, apps, assignment)
    flows = _flows(network, apps, assignment)
    delayed = _delayed(network, apps)
    if delayed is network and not network.several_differ:
        return network
    return _fixed(delayed.with_rates(_pair_rates(network, flows, slow=starts_slowly(network, apps))))


def as_credited(network: Network, apps: Sequence[App], assignment: Mapping[str, str]) -> Network:
    """Return a Network in which each host with a credit has its average rate under an assignment, all phases together.

    Args:
        network: the measured Network.
        apps: the applications that run.
        assignment: task to host; with several applications a task is `app/task`.
    """
    if not any(has_credit(host) for host in network.hosts):
        return network
    sent = host_bytes(network, apps, assignment)
    most_bytes = _most_bytes(apps)
    return with_credits(network, [size or most_bytes for size in sent])


def host_bytes(network: Network, apps: Sequence[App], assignment: Mapping[str, str]) -> list[float]:
    """Return the bytes that each host sends to other machines under an assignment, all phases together.

    Args:
        network: the hosts.
        apps: the applications that run.
        assignment: task to host; with several applications a task is `app/task`.
    """
    at = {name: index for index, name in enumerate(network.names)}
    sent: Counter[Pair] = Counter()
    for app in apps:
        prefix = f"{app.name}/" if len(apps) > 1 else ""
        for transfer in app.transfer:
            sent[at[assignment[prefix + transfer.source]], at[assignment[prefix + transfer.target]]] += transfer.bytes
    return sent_by_hosts(network, ((m, n, size) for (m, n), size in sent.items() if m != n))


def _flows(
    network: Network, apps: Sequence[App], assignment: Mapping[str, str]
) -> dict[tuple[Pair, int], list[_Connection]]:
    """Return the connections between each two hosts in each phase."""
    at = {name: index for index, name in enumerate(network.names)}
    flows: defaultdict[tuple[Pair, int], list[_Connection]] = defaultdict(list)
    for pair, phase, connection in _connections(apps, assignment, at):
        flows[pair, phase].append(connection)
    return flows


def _fixed(network: Network) -> Network:
    """Return the Network without rates of several connections, since what each pair gets is known now."""
    return network.model_copy(update={"several_bps": [], "connections": []}) if network.several_bps else network


class _Connection(NamedTuple):
    """Bytes and number of messages that one task sends another in one phase."""

    bytes: int
    messages: int


def _connections(
    apps: Sequence[App], assignment: Mapping[str, str], at: Mapping[str, int]
) -> Iterator[tuple[Pair, int, _Connection]]:
    """Yield the hosts and the phase of each connection between two hosts: one for each two tasks."""
    for app in apps:
        prefix = f"{app.name}/" if len(apps) > 1 else ""
        connections: dict[tuple[str, str, int], _Connection] = {}
        for transfer in app.transfer:
            key = (transfer.source, transfer.target, transfer.phase)
            size, messages = connections.get(key, (0, 0))
            connections[key] = _Connection(size + transfer.bytes, messages + (transfer.messages or 0))
        for (source, target, phase), connection in connections.items():
            m, n = (at[assignment[prefix + task]] for task in (source, target))
            if m != n and connection.bytes:
                yield (m, n), phase, connection


def _pair_rates(
    network: Network, flows: Mapping[tuple[Pair, int], Sequence[_Connection]], *, slow: bool
) -> dict[Pair, float]:
    """Return the rate of each pair that has connections.

    Args:
        network: with the rates of one and of several connections.
        flows: connections of each pair and phase.
        slow: whether the starts of connections count.
    """
    listed = [(m, n, each) for ((m, n), _), connections in flows.items() for each in connections]
    sources, targets = (np.array([each[end] for each in listed], dtype=np.int64) for end in (0, 1))
    sizes, messages = (np.array([getattr(each[2], key) for each in listed]) for key in ("bytes", "messages"))
    one_bps = _ones_bps(network, slow=slow)[sources, targets]
    waits_s = messages * (np.nan_to_num(matrix(network.latency_s))[sources, targets] if network.latency_s else 0.0)
    if slow:
        waits_s = np.maximum(waits_s, starts_s(network, sizes, (sources, targets)))
    taken_s = iter((8 * sizes / one_bps + waits_s).tolist())
    sums: defaultdict[Pair, int] = defaultdict(int)
    times_s: defaultdict[Pair, float] = defaultdict(float)
    for (pair, _), connections in flows.items():
        several_bps = network.pair_several_bps(*pair) or math.inf
        size = sum(each.bytes for each in connections)
        longest_s = max(next(taken_s) for _ in connections)
        sums[pair] += size
        times_s[pair] += max(longest_s, 8 * size / several_bps)
    return {pair: max(8 * sums[pair] / seconds, LEAST_BPS) for pair, seconds in times_s.items() if seconds > 0}


def _ones_bps(network: Network, *, slow: bool) -> npt.NDArray[np.float64]:
    """Return (N, N) rates of one connection, inf = unknown; if starts count, hosts' caps stand for unknown rates."""
    if slow:
        return rates_bps(network)
    size = len(network.hosts)
    rate_bps = matrix(network.rate_bps) if network.rate_bps else np.full((size, size), np.nan)
    return np.where(np.isnan(rate_bps), np.inf, rate_bps)
