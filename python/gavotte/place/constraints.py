"""Check that an assignment keeps the constraints of its applications, and the limits on the whole placement.

A constraint with a price may be broken; `broken_rules` lists these.

The compiled module checks capacity and pins. Greedy plans for nothing else, so its answers are checked here. So are
assignments from outside and, as a second check, those of all other methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise

from gavotte.errors import InfeasibleError
from gavotte.formats.app import App, Labelled
from gavotte.formats.network import Network
from gavotte.formats.parts.rates import format_rate
from gavotte.place.limits import NO_LIMITS, PlacementLimits
from gavotte.place.merge import by_name, task_key
from gavotte.place.rule_columns import bounds_of, zone_counts
from gavotte.place.zones import zones_by


def check_constraints(
    network: Network,
    apps: Sequence[App],
    assignment: Mapping[str, str],
    method: str,
    limits: PlacementLimits = NO_LIMITS,
) -> None:
    """Reject an assignment that breaks `apart`, `together`, `max_latency`, `max_hosts` or a limit on the whole.

    Args:
        network: the network, for latencies and prices.
        apps: the applications; the constraints of each apply to its own tasks.
        assignment: task key to host, for every task.
        method: name of the method that made the assignment, for the message.
        limits: bounds on the whole placement.

    Raises:
        InfeasibleError: naming the method, the constraint and the tasks that break it.
    """
    for app in apps:
        host_of = by_name(assignment, app, apps)
        for constraint, reason in _broken(network, app, host_of):
            raise InfeasibleError(
                f"{method} does not satisfy {constraint} of application `{app.name}`: {reason}",
                hint="use --method auto, pin the tasks concerned, or relax the constraint",
            )
    used, price = len(set(assignment.values())), price_usd(network, apps, assignment)
    if limits.max_hosts is not None and used > limits.max_hosts:
        raise InfeasibleError(f"{method} uses {used} hosts, more than {limits.max_hosts}", hint="use --method auto")
    if limits.max_latency_s is not None and latency_s(network, apps, assignment) > limits.max_latency_s:
        raise InfeasibleError(
            f"{method} puts tasks farther apart than {limits.max_latency_s:.3g} s", hint="use --method auto"
        )
    if limits.max_price_usd is not None and price > limits.max_price_usd * (1 + 1e-9) + 1e-12:
        raise InfeasibleError(
            f"{method} costs {price:.6g} USD, more than {limits.max_price_usd:.6g} USD", hint="use --method auto"
        )

    for quota in limits.quotas:
        behind = [task for task, host in assignment.items() if host in quota.hosts]
        need_bps = sum(quota.needs_bps.get(task, 0.0) for task in behind)
        if need_bps > quota.most_bps * (1 + 1e-9):
            raise InfeasibleError(
                f"{method} puts tasks with {format_rate(need_bps)} behind the {quota.link}, which can guarantee "
                f"{format_rate(quota.most_bps)}",
                hint="use --method auto",
            )


def price_usd(network: Network, apps: Sequence[App], assignment: Mapping[str, str]) -> float:
    """Return the price of the hosts that an assignment uses and of the bytes between them, in USD."""
    at = {name: index for index, name in enumerate(network.names)}
    total = sum(network.hosts[at[host]].price_usd for host in set(assignment.values()))
    if not network.price_usd_per_gb:
        return total
    for app in apps:
        for transfer in app.transfer:
            m, n = (at[assignment[task_key(app, task, apps)]] for task in (transfer.source, transfer.target))
            total += transfer.bytes / 1e9 * (network.price_usd_per_gb[m][n] or 0.0) if m != n else 0.0
    return total


def latency_s(network: Network, apps: Sequence[App], assignment: Mapping[str, str]) -> float:
    """Return the longest one-way latency between two tasks that exchange bytes, in seconds; inf if one is unknown.

    Args:
        network: the hosts, and the latencies between them.
        apps: the applications placed.
        assignment: task key to host.
    """
    at = {name: index for index, name in enumerate(network.names)}
    longest_s = 0.0
    for app in apps:
        for transfer in app.transfer:
            m, n = (at[assignment[task_key(app, task, apps)]] for task in (transfer.source, transfer.target))
            there_s = 0.0 if m == n else network.pair_latency_s(m, n)
            longest_s = max(longest_s, math.inf if there_s is None else there_s)
    return longest_s


@dataclass(frozen=True)
class Broken:
    """A constraint with a price that a placement breaks.

    Attributes:
        text: the constraint, in words.
        penalty_s: what breaking it costs, in seconds.
    """

    text: str
    penalty_s: float


def broken_rules(network: Network, apps: Sequence[App], assignment: Mapping[str, str]) -> list[Broken]:
    """Return the constraints with a price that an assignment breaks.

    Args:
        network: the hosts, their labels, and the latencies between them.
        apps: the applications placed.
        assignment: task key to host.
    """
    broken = []
    for app in apps:
        host_of = by_name(assignment, app, apps)
        of_app = "" if len(apps) == 1 else f" of application `{app.name}`"
        for name, times, price_s in _excess(network, app, host_of):
            if times:
                broken.append(Broken(f"`{name}`{of_app}", times * price_s))
    return broken


def _excess(network: Network, app: App, host_of: Mapping[str, str]) -> Iterator[tuple[str, int, float]]:
    """Yield each constraint with a price: its name, how often it is broken, and the price of each time."""
    rules, zones = app.constraints, _zones(network)
    for i, group in enumerate(rules.groups_apart):
        if group.price_s is not None:
            counts = zone_counts(zones(group.by), [host_of[task] for task in group.tasks])
            yield f"apart[{i}]", sum(max(count - 1, 0) for count in counts.values()), group.price_s
    for i, group in enumerate(rules.groups_together):
        if group.price_s is not None:
            counts = zone_counts(zones(group.by), [host_of[task] for task in group.tasks])
            yield f"together[{i}]", sum(count > 0 for count in counts.values()) - 1, group.price_s
    for i, spread in enumerate(rules.spread):
        if spread.price_s is not None:
            tasks = spread.tasks or list(host_of)
            counts = zone_counts(zones(spread.by), [host_of[task] for task in tasks])
            most = bounds_of(spread, len(tasks), len(counts))[1]
            yield f"spread[{i}]", sum(max(count - most, 0) for count in counts.values()), spread.price_s
    for i, labelled in enumerate(rules.labels):
        if labelled.price_s is not None:
            tasks = labelled.tasks or list(host_of)
            kept = _labelled(network, labelled)
            missed = sum(host_of[task] not in kept for task in tasks)
            yield f"labels[{i}]", missed, labelled.price_s
    at = {name: index for index, name in enumerate(network.names)}
    for i, bound in enumerate(rules.max_latency):
        if bound.price_s is not None:
            m, n = at[host_of[bound.source]], at[host_of[bound.target]]
            known_s = 0.0 if m == n else network.pair_latency_s(m, n)
            yield f"max_latency[{i}]", int(known_s is None or known_s > bound.seconds), bound.price_s


def _zones(network: Network) -> Callable[[str], dict[str, str]]:
    """Return a function from what a zone is to the zone of each host, by name, which computes each only once."""

    @cache
    def zone_of(by: str) -> dict[str, str]:
        return dict(zip(network.names, zones_by(network, by), strict=True))

    return zone_of


def _labelled(network: Network, labelled: Labelled) -> set[str]:
    """Return the names of hosts whose label has an accepted value."""
    return {host.name for host in network.hosts if host.labels.get(labelled.key) in labelled.values}


def _broken(network: Network, app: App, host_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each broken constraint with the reason."""
    rules, zones = app.constraints, _zones(network)
    for i, group in enumerate(rules.groups_apart):
        zone_of = zones(group.by) if group.price_s is None else {}
        for one, other in combinations(group.tasks if zone_of else (), 2):
            if zone_of[host_of[one]] == zone_of[host_of[other]]:
                both = f"`{host_of[one]}`" if group.by == "host" else f"the {group.by} of `{host_of[one]}`"
                yield f"apart[{i}]", f"`{one}` and `{other}` are both on {both}"
    for i, group in enumerate(rules.groups_together):
        zone_of = zones(group.by) if group.price_s is None else {}
        for one, other in pairwise(group.tasks if zone_of else ()):
            if zone_of[host_of[one]] != zone_of[host_of[other]]:
                yield f"together[{i}]", f"`{one}` is on `{host_of[one]}` and `{other}` on `{host_of[other]}`"
    for i, spread in enumerate(rules.spread):
        tasks = spread.tasks or list(host_of)
        counts = zone_counts(zones(spread.by), [host_of[task] for task in tasks])
        least, most = bounds_of(spread, len(tasks), len(counts))
        for zone, count in counts.items():
            if spread.price_s is None and not least <= count <= most:
                yield f"spread[{i}]", f"`{zone}` has {count} of its tasks, not {least} to {most}"
    for i, labelled in enumerate(rules.labels):
        kept = _labelled(network, labelled) if labelled.price_s is None else set(network.names)
        for task in labelled.tasks or list(host_of):
            if host_of[task] not in kept:
                yield f"labels[{i}]", f"`{task}` is on `{host_of[task]}`, which lacks the label `{labelled.key}`"
    at = {name: index for index, name in enumerate(network.names)}
    for i, bound in enumerate(rules.max_latency):
        source, target = host_of[bound.source], host_of[bound.target]
        if source == target or bound.price_s is not None:
            continue
        latency_s = network.pair_latency_s(at[source], at[target])
        if latency_s is None:
            yield f"max_latency[{i}]", f"the latency from `{source}` to `{target}` is not known"
        elif latency_s > bound.seconds:
            yield f"max_latency[{i}]", f"`{source}` to `{target}` takes {latency_s:.3g} s, not {bound.seconds:.3g} s"
    used = len(set(host_of.values()))
    if rules.max_hosts is not None and used > rules.max_hosts:
        yield "max_hosts", f"it uses {used} hosts, not {rules.max_hosts}"
