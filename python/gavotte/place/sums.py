"""Reject what all hosts or all links together cannot hold, before any search.

`conflict` needs a solver to name its reasons; these checks need none.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gavotte.errors import InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes, format_rate
from gavotte.place.limits import Quota
from gavotte.place.merge import task_keys
from gavotte.place.running import Running, resources_taken, room_taken

_SHOWN = 8
"""Most tasks that a message names."""


def check_sums(network: Network, apps: Sequence[App], running: Sequence[Running]) -> None:
    """Reject applications that need more cores, memory, storage or counted resources than hosts have free.

    It also finds tasks too large to share hosts: of tasks of 1.5 cores, two hosts of 2 cores hold two.

    Raises:
        InfeasibleError: naming what is needed and what is free, and a few tasks that do not fit if there are such.
    """
    hosts = counted(len(network.hosts), "host")
    for resource in _resources(network, apps, running):
        need, room = sum(resource.needs.values()), sum(resource.rooms)
        few = _too_large(resource)
        if len(few) == 1:
            raise InfeasibleError(
                f"no placement exists: task `{few[0]}` needs {resource.amount(resource.needs[few[0]])}, "
                "more than any host has free",
                hint="add a larger host, or split the task",
            )
        if need > room * (1 + 1e-9):
            also = ""
            if 0 < len(few) < len(resource.needs):
                least = resource.amount(min(resource.needs[task] for task in few))
                room_for = f"each needs {least} or more, and there is room for {len(few) - 1}"
                also = f" (already {_listed(few)} do not fit: {room_for})"
            elif few:
                least = resource.amount(min(resource.needs.values()))
                also = f" (each needs {least} or more, and there is room for {len(few) - 1})"
            raise InfeasibleError(
                f"no placement exists: {len(resource.needs)} tasks need {resource.amount(need)} and {hosts} "
                f"have {resource.amount(room, bare=True)}{also}",
                hint=f"add hosts, or lower `{resource.key}` of the tasks",
            )
        if few:
            least = resource.amount(min(resource.needs[task] for task in few))
            raise InfeasibleError(
                f"no placement exists: {_listed(few)} need {least} each or more, and {hosts} have room for "
                f"{len(few) - 1} such tasks",
                hint="add hosts, or make any one of these tasks smaller",
            )


@dataclass(frozen=True)
class _Resource:
    """What tasks need of a resource, by task key, and what hosts have free; `unit` is `cpus`, `bytes` or a name."""

    key: str
    unit: str
    needs: dict[str, float]
    rooms: list[float]

    def amount(self, number: float, *, bare: bool = False) -> str:
        """Return an amount in words: `4.5 cpus`, `6 GB of memory`, `2 gpu`; bare = without the resource's name."""
        if self.unit == "bytes":
            size = format_bytes(number)
            return size if bare else f"{size} of {self.key.removesuffix('_bytes')}"
        return f"{number:g}" if bare else f"{number:g} {self.unit}"


def _resources(network: Network, apps: Sequence[App], running: Sequence[Running]) -> Iterator[_Resource]:
    """Yield each resource that may run out. A host with 0 bytes is one of unknown size."""
    cpus, memory_bytes, storage_bytes = room_taken(network, running)
    tasks = dict(zip(task_keys(apps), (task for app in apps for task in app.task), strict=True))
    free = [max(offered - taken, 0.0) for offered, taken in zip(network.offered_cpus, cpus, strict=True)]
    yield _Resource("cpus", "cpus", {key: task.cpus for key, task in tasks.items()}, free)
    for key, taken_bytes in (("memory_bytes", memory_bytes), ("storage_bytes", storage_bytes)):
        offered_bytes = [getattr(host, key) for host in network.hosts]
        if all(offered_bytes):
            free = [max(o - t, 0) for o, t in zip(offered_bytes, taken_bytes, strict=True)]
            yield _Resource(key, "bytes", {name: getattr(task, key) for name, task in tasks.items()}, free)
    taken = resources_taken(network, running)
    for name in sorted({name for task in tasks.values() for name in task.resources}):
        needs = {key: task.resources[name] for key, task in tasks.items() if name in task.resources}
        rooms = [max(host.resources.get(name, 0) - taken[m][name], 0) for m, host in enumerate(network.hosts)]
        yield _Resource(f"resources.{name}", name, dict(needs), list(rooms))


def _too_large(resource: _Resource) -> list[str]:
    """Return the fewest of the largest tasks, up to `_SHOWN`, of which hosts cannot hold all; empty if they can.

    If k tasks need t or more each, each host holds its room divided by t, rounded down.
    """
    largest = heapq.nlargest(_SHOWN, resource.needs.items(), key=lambda item: item[1])
    rooms = Counter(resource.rooms)
    for count, (_, need) in enumerate(largest, 1):
        if need <= 0:
            break
        held = sum(hosts * math.floor(room / need * (1 + 1e-9)) for room, hosts in rooms.items())
        if held < count:
            return [task for task, _ in largest[:count]]
    return []


def _listed(tasks: Sequence[str]) -> str:
    names = [f"`{task}`" for task in tasks]
    return f"tasks {', '.join(names[:-1])} and {names[-1]}"


def check_quotas(quotas: Sequence[Quota]) -> None:
    """Reject guarantees that exceed the links of all hosts together, or one that exceeds the link of every host.

    Raises:
        InfeasibleError: naming the link.
    """
    hosts = {host for quota in quotas for host in quota.hosts}
    for sends in (True, False):
        single = [quota for quota in quotas if quota.sends is sends and len(quota.hosts) == 1]
        if not single or {quota.hosts[0] for quota in single} != hosts:
            continue
        widest = max(single, key=lambda quota: quota.most_bps)
        task, most_bps = max(widest.needs_bps.items(), key=lambda item: item[1])
        if most_bps > widest.most_bps * (1 + 1e-9):
            raise InfeasibleError(
                f"no placement exists: task `{task}` is to have {format_rate(most_bps)}, and the widest link of a "
                f"host, the {widest.link}, can guarantee {format_rate(widest.most_bps)}",
                hint="lower its guarantee, or add a host with a wider link",
            )
        need_bps, room_bps = sum(widest.needs_bps.values()), sum(quota.most_bps for quota in single)
        if need_bps > room_bps * (1 + 1e-9):
            raise InfeasibleError(
                f"no placement exists: tasks are to have {format_rate(need_bps)} together, and the links of all hosts, "
                f"of which the {widest.link} is the widest, can guarantee {format_rate(room_bps)}",
                hint="lower the guarantees, or add hosts",
            )
