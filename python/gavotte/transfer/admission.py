"""Admission of transfers: which of the unfinished ones run at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

ON_HOST = 16
"""Most transfers that run on one host at the same time. An agent accepts 64 holds, and other users need some."""

HOLDS_ON_HOST = 2 * ON_HOST
"""Most transfers of this controller that hold one agent, including those that are just ending."""

AT_ONCE = 256
"""Most transfers that run at the same time on all hosts: each has threads and connections in the controller."""


def crowded(hosts: Mapping[int, Collection[str]]) -> bool:
    """Return whether not all transfers can run at the same time.

    Args:
        hosts: each unfinished transfer's number to its hosts.
    """
    return len(hosts) > AT_ONCE or any(count > ON_HOST for count in _counted(hosts.values()).values())


def admitted(order: Iterable[int], hosts: Mapping[int, Collection[str]]) -> set[int]:
    """Return the transfers that run.

    1. Go through the transfers in the order in which the policy serves them.
    2. A transfer runs if each of its hosts has a place left, and takes one on each. It takes none if it cannot run.
    3. All others wait. Those that run already are suspended.

    Args:
        order: numbers of all unfinished transfers, the first to be served first.
        hosts: each transfer's number to its hosts.
    """
    taken: Counter[str] = Counter()
    running: set[int] = set()
    for number in order:
        if len(running) == AT_ONCE:
            break
        if all(taken[host] < ON_HOST for host in hosts[number]):
            taken.update(hosts[number])
            running.add(number)
    return running


def crowded_host(hosts: Collection[str], others: Iterable[Collection[str]]) -> str | None:
    """Return a host on which a transfer would not run at once, since as many others go first there; None if none.

    Args:
        hosts: hosts of the transfer.
        others: hosts of each of the others.
    """
    taken = _counted(others)
    return next((host for host in sorted(hosts) if taken[host] >= ON_HOST), None)


def holdable(number: int, hosts: Mapping[int, Collection[str]], holding: Collection[int]) -> bool:
    """Return whether a transfer may begin although others, which are just ending, still hold its hosts.

    Args:
        number: the transfer.
        hosts: each transfer's number to its hosts.
        holding: numbers of all transfers that hold hosts now.
    """
    taken = _counted(hosts[each] for each in holding)
    return len(holding) < 2 * AT_ONCE and all(taken[host] < HOLDS_ON_HOST for host in hosts[number])


def _counted(hosts: Iterable[Collection[str]]) -> Counter[str]:
    return Counter(host for own in hosts for host in own)
