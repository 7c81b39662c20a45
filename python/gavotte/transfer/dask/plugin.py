"""One plugin for Dask's scheduler: measured rates between workers, and broadcasts of large objects."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.transfer.applications import MEMORY, Broadcast
from gavotte.transfer.dask.rates import Rates
from gavotte.transfer.dask.scattering import copied, pays_from_bytes, remove, write
from gavotte.transfer.planning import Mechanism

with needs("dask"):
    from distributed.protocol.pickle import dumps

if TYPE_CHECKING:
    from distributed.scheduler import Scheduler, WorkerState

logger = logging.getLogger(__name__)


class Gavotte(Rates):
    """Dask plugin that compares workers by measured rates, and sends large objects to them by broadcasts.

        client.register_plugin(Gavotte(network, inventory))
        client.unregister_scheduler_plugin(Gavotte.name)

    The rates are those of `Rates`. Calls of `client.scatter(data, broadcast=True)` and `client.replicate(futures)` use
    broadcasts for objects that are large enough, if all present workers, or all of a list, get them. Dask copies an
    object to workers that its broadcast does not reach. The scheduler's process needs Gavotte, and reaches the agents
    of the workers' hosts as the inventory says. `client.get_events("gavotte")` lists the broadcasts and failures.

    Args:
        network: the Network between the workers' hosts.
        inventory: their addresses and agents.
        least_bytes: Dask copies objects that it takes for smaller; 0 = none; None = by the number of workers, as
            `pays_from_bytes` says.
        mechanism: how broadcasts are sent; `auto` chooses the one with the shortest predicted time.
        folder: absolute path of the folder for copies until workers have read them.
        seed: seed of all random choices.

    Raises:
        GavotteError: when no host of the Network is in the inventory.
    """

    name = "gavotte"

    def __init__(
        self,
        network: Network,
        inventory: Inventory,
        *,
        least_bytes: int | None = None,
        mechanism: Mechanism = "auto",
        folder: str = MEMORY,
        seed: int = 0,
    ) -> None:
        super().__init__(network, inventory)
        self._network = network
        self._inventory = inventory
        self._least_bytes = least_bytes
        self._mechanism: Mechanism = mechanism
        self._folder = folder
        self._seed = seed

    async def start(self, scheduler: Scheduler) -> None:
        """Take the place of the scheduler's own prediction, and come before its own copies."""
        await super().start(scheduler)
        own = type(scheduler).replicate.__get__(scheduler)

        async def replicate(
            keys: Collection[Any], n: int | None = None, workers: Iterable[str] | None = None, **options: Any
        ) -> Any:
            chosen = None if workers is None else list(workers)
            if scheduler.plugins.get(self.name) is self:
                await self._broadcast_all(scheduler, keys, n, chosen)
            return await own(keys, n=n, workers=chosen, **options)

        scheduler.replicate = replicate
        scheduler.handlers["replicate"] = replicate

    async def _broadcast_all(
        self, scheduler: Scheduler, keys: Collection[Any], copies: int | None, workers: Sequence[str] | None
    ) -> None:
        """Broadcast the large ones of some objects; those that fail are left to Dask."""
        states = [scheduler.workers[each] for each in scheduler.workers_list(workers)]
        receivers = [each for each in states if each.host in self._at]
        if copies is not None and copies < len(states):
            return
        least_bytes = pays_from_bytes(len(states)) if self._least_bytes is None else self._least_bytes
        for key in keys:
            task = scheduler.tasks.get(key)
            if task is None or not math.isfinite(least_bytes) or task.get_nbytes() < least_bytes:
                continue
            holder = next((each for each in task.who_has or () if each.host in self._at), None)
            targets = [each for each in receivers if each not in (task.who_has or ())]
            if holder is None or not targets:
                continue
            try:
                await self._broadcast(scheduler, key, holder, targets)
            except (GavotteError, OSError) as error:
                scheduler.log_event(self.name, {"action": "failed", "key": key, "why": str(error)})
                logger.info("Dask copies %s, because its broadcast failed: %s", key, error)

    async def _broadcast(
        self, scheduler: Scheduler, key: Any, holder: WorkerState, targets: Sequence[WorkerState]
    ) -> None:
        """Send one object from its holder's host to the hosts of other workers, which then read their copies."""
        source = self._named(holder)
        hosts = sorted({self._named(each) for each in targets} - {source})
        name = f"gavotte-{secrets.token_hex(8)}"
        paths = {source: f"{self._folder}/{name}-{source}"}
        try:
            await _on(scheduler, {holder.address: (key, paths[source])}, write)
            if hosts:
                result = await asyncio.to_thread(self._send, source, hosts, paths[source], name)
                paths |= {each.host: each.path for each in result.receivers if each.ok}
                sent = {"action": "broadcast", "key": key, "source": source, "hosts": sorted(set(paths) - {source})}
                scheduler.log_event(self.name, sent)
            reading = {each.address: (key, paths[self._named(each)]) for each in targets if self._named(each) in paths}
            read = await _on(scheduler, reading, copied)
            task = scheduler.tasks.get(key)
            for address in read:
                worker = scheduler.workers.get(address)
                if task is not None and task.state == "memory" and worker is not None:
                    scheduler.add_replica(task, worker)
        finally:
            at = {self._named(each): each.address for each in (*targets, holder)}
            await _on(scheduler, {at[host]: (path,) for host, path in paths.items()}, remove)

    def _send(self, source: str, hosts: Sequence[str], path: str, name: str) -> Any:
        return Broadcast(
            self._inventory,
            source,
            targets=hosts,
            network=self._network,
            mechanism=self._mechanism,
            folder=self._folder,
            seed=self._seed,
        ).send(path, name)

    def _named(self, worker: WorkerState) -> str:
        return self._network.names[self._at[worker.host]]


async def _on(scheduler: Scheduler, arguments: dict[str, tuple[Any, ...]], function: Callable[..., Any]) -> list[str]:
    """Run a function on workers, each with its own arguments; return those on which it succeeded.

    Raises:
        OSError: when it succeeded on none.
    """

    async def one(address: str, values: tuple[Any, ...]) -> dict[str, Any]:
        message = {"op": "run", "function": dumps(function), "args": dumps(values)}
        replies = await scheduler.broadcast(msg=message, workers=[address], on_error="ignore")
        return dict(replies)

    replies = await asyncio.gather(*(one(address, values) for address, values in arguments.items()))
    good = [address for reply in replies for address, each in reply.items() if each["status"] == "OK"]
    if arguments and not good:
        errors = [each["exception_text"] for reply in replies for each in reply.values()]
        raise OSError(errors[0] if errors else "no worker answered")
    return good
