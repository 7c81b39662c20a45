"""Reject what all hosts or all links together cannot hold, before any search.

`conflict` needs a solver to name its reasons; these checks need none.
"""

from __future__ import annotations

from collections.abc import Sequence

from gavotte.errors import InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes, format_rate
from gavotte.place.columns import Quota
from gavotte.place.running import Running, room_taken


def check_sums(network: Network, apps: Sequence[App], running: Sequence[Running]) -> None:
    """Reject applications that need more cores, memory or storage than all hosts together have free.

    Raises:
        InfeasibleError: naming what is needed and what is free.
    """
    cpus, memory_bytes, storage_bytes = room_taken(network, running)
    tasks = [task for app in apps for task in app.task]
    need, room = sum(task.cpus for task in tasks), sum(host.cpus for host in network.hosts) - sum(cpus)
    # A single task that fits no host is named alone.
    if need > room * (1 + 1e-9) and max(task.cpus for task in tasks) <= max(host.cpus for host in network.hosts):
        raise InfeasibleError(
            f"no placement exists: {len(tasks)} tasks need {need:g} cpus and "
            f"{counted(len(network.hosts), 'host')} have {room:g}",
            hint="add hosts, or lower `cpus` of the tasks",
        )
    for what, taken in (("memory", memory_bytes), ("storage", storage_bytes)):
        key = f"{what}_bytes"
        need = sum(getattr(task, key) for task in tasks)
        offered = [getattr(host, key) for host in network.hosts]
        # 0 bytes of a host mean that its size is unknown.
        if need > sum(offered) - sum(taken) and all(offered):
            raise InfeasibleError(
                f"no placement exists: {len(tasks)} tasks need {format_bytes(need)} of {what} and "
                f"{counted(len(network.hosts), 'host')} have {format_bytes(sum(offered) - sum(taken))}",
                hint=f"add hosts, or lower `{key}` of the tasks",
            )


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
