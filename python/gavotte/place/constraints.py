"""Check that an assignment keeps the constraints of its applications, and the limits on the whole placement.

The compiled module checks capacity and pins. Greedy plans for nothing else, so its answers are checked here. So are
assignments from outside and, as a second check, those of all other methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise

from gavotte.errors import InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.rates import format_rate
from gavotte.place.columns import NO_LIMITS, PlacementLimits
from gavotte.place.merge import task_key


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
        host_of = {task.name: assignment[task_key(app, task.name, apps)] for task in app.task}
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


def _broken(network: Network, app: App, host_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each broken constraint with the reason."""
    rules = app.constraints
    for i, group in enumerate(rules.apart):
        for one, other in combinations(group, 2):
            if host_of[one] == host_of[other]:
                yield f"apart[{i}]", f"`{one}` and `{other}` are both on `{host_of[one]}`"
    for i, group in enumerate(rules.together):
        for one, other in pairwise(group):
            if host_of[one] != host_of[other]:
                yield f"together[{i}]", f"`{one}` is on `{host_of[one]}` and `{other}` on `{host_of[other]}`"
    at = {name: index for index, name in enumerate(network.names)}
    for i, bound in enumerate(rules.max_latency):
        source, target = host_of[bound.source], host_of[bound.target]
        if source == target:
            continue
        latency_s = network.pair_latency_s(at[source], at[target])
        if latency_s is None:
            yield f"max_latency[{i}]", f"the latency from `{source}` to `{target}` is not known"
        elif latency_s > bound.seconds:
            yield f"max_latency[{i}]", f"`{source}` to `{target}` takes {latency_s:.3g} s, not {bound.seconds:.3g} s"
    used = len(set(host_of.values()))
    if rules.max_hosts is not None and used > rules.max_hosts:
        yield "max_hosts", f"it uses {used} hosts, not {rules.max_hosts}"
