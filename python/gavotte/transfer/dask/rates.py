"""Let Dask's scheduler compare workers by the measured rates between their hosts.

Dask predicts each transfer by one rate for all pairs of workers (`Scheduler.get_comm_cost`; distributed issue 2743).
So it runs a task where most bytes of its inputs are, even if the others then cross a slow path.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gavotte.agents import with_addresses
from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.tables import matrix
from gavotte.terms.paths import rates_bps

with needs("dask"):
    from distributed.diagnostics.plugin import SchedulerPlugin

if TYPE_CHECKING:
    from distributed.scheduler import Scheduler, TaskState, WorkerState

LOCAL_BPS = 8e9
"""Rate between two workers of one host, at which Dask copies objects over loopback: 1 GB/s."""


class Rates(SchedulerPlugin):  # type: ignore[misc]  # Dask's types are not read
    """Dask plugin that predicts a transfer by the rate and latency of its own path.

    Each input of a task comes from the worker from which it comes soonest. Workers on hosts that the Network does not
    have are compared by Dask's own rate.

        client.register_plugin(Rates(network, inventory))
        client.unregister_scheduler_plugin(Rates.name)

    A newer one replaces the older one. The scheduler's process needs Gavotte, as Dask's plugins do.

    Args:
        network: the Network between the workers' hosts.
        inventory: their addresses, by which workers are found.

    Raises:
        GavotteError: when no host of the Network is in the inventory.
    """

    name = "gavotte-rates"

    def __init__(self, network: Network, inventory: Inventory) -> None:
        known = {name: index for index, name in enumerate(network.names)}
        self._at = {host.address: known[host.name] for host in with_addresses(inventory).host if host.name in known}
        if not self._at:
            raise GavotteError(
                f"the inventory has no host of the Network, such as `{network.names[0]}`",
                hint="use the inventory of the measurement",
            )
        size = len(network.hosts)
        self._seconds_per_byte: list[list[float]] = (8.0 / rates_bps(network)).tolist()
        latency_s = matrix(network.latency_s) if network.latency_s else np.zeros((size, size))
        self._latency_s: list[list[float]] = np.nan_to_num(latency_s).tolist()

    async def start(self, scheduler: Scheduler) -> None:
        """Take the place of the scheduler's own prediction."""
        own = type(scheduler).get_comm_cost.__get__(scheduler)

        def cost_s(task: TaskState, worker: WorkerState) -> float:
            # Dask tells no plugin that it has been removed.
            if scheduler.plugins.get(self.name) is not self:
                return float(own(task, worker))
            seconds: float = self.cost_s(task, worker, scheduler.bandwidth)
            return seconds

        scheduler.get_comm_cost = cost_s

    def cost_s(self, task: TaskState, worker: WorkerState, bandwidth: float) -> float:
        """Return the seconds until a worker has all inputs of a task that it does not have yet.

        Args:
            task: the task.
            worker: where it may run.
            bandwidth: Dask's own rate of all paths, in bytes/s.
        """
        target = self._at.get(worker.host)
        missing = [each for each in task.dependencies if each not in worker.has_what]
        return sum((self._fetch_s(each, worker, target, bandwidth) for each in missing), 0.0)

    def _fetch_s(self, data: Any, worker: WorkerState, target: int | None, bandwidth: float) -> float:
        """Return the seconds of one input, from the worker from which it comes soonest."""
        size, least_s = data.get_nbytes(), math.inf
        for holder in data.who_has or ():
            if holder.host == worker.host:
                return float(8 * size / LOCAL_BPS)
            source = self._at.get(holder.host)
            if source is None or target is None:
                fetch_s = size / bandwidth
            else:
                fetch_s = self._latency_s[source][target] + size * self._seconds_per_byte[source][target]
            least_s = min(least_s, fetch_s)
        return float(least_s if math.isfinite(least_s) else size / bandwidth)
