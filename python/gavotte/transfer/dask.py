"""A large object to all workers of a Dask cluster by a broadcast instead of Dask's own copying. Needs `gavotte[dask]`.

scatter = gavotte.transfer.dask.Scatter(client, gavotte.read_inventory("hosts.toml"))
weights = scatter(array)
client.submit(step, weights)
"""

from __future__ import annotations

import logging
import secrets
import socket
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from distributed import Client, Future, Worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol.pickle import dumps, loads
from distributed.utils import get_ip

from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.transfer.applications import MEMORY, Broadcast, read_copy
from gavotte.transfer.outcome import BroadcastResult
from gavotte.transfer.planning import Mechanism

logger = logging.getLogger(__name__)

ALIGNED = 64
"""Each buffer of an object begins at a multiple of so many bytes, as NumPy likes it."""


class Copies(WorkerPlugin):  # type: ignore[misc]  # Dask's types are not read
    """Takes what broadcasts bring into a worker's memory. `Scatter` registers it."""

    name = "gavotte-copies"

    def setup(self, worker: Worker) -> None:
        """Belongs to a worker from now on."""
        self._worker = worker

    def take(self, key: str, path: str) -> int:
        """Puts the object of a copy under a key of Dask's; returns what Dask takes it to weigh, in bytes."""
        told = self._worker.update_data({key: unpack(read_copy(path))})
        return int(told["nbytes"][key])


class Scatter:
    """Brings objects from this process to all workers of a cluster.

    Args:
        client: of the cluster, a synchronous one.
        inventory: where the hosts are; workers are found by their addresses. This process runs on one of them.
        source: that host; None = the one with an address of this machine.
        network: what is known of the hosts; None = the first call probes each one's port.
        mechanism: how; `auto` takes the fastest predicted.
        folder: where copies are until workers have them, absolute.
        seed: of all random choices.

    Attributes:
        last: how the newest broadcast went; None = none was needed.

    Raises:
        GavotteError: when this machine, or a worker's, is not in the inventory.
    """

    def __init__(
        self,
        client: Client,
        inventory: Inventory,
        *,
        source: str | None = None,
        network: Network | None = None,
        mechanism: Mechanism = "auto",
        folder: str = MEMORY,
        seed: int = 0,
    ) -> None:
        self.last: BroadcastResult | None = None
        self._client = client
        self._inventory = inventory
        self._network = network
        self._mechanism: Mechanism = mechanism
        self._folder = folder
        self._seed = seed
        self._source = _own(inventory) if source is None else source
        self._sending: Broadcast | None = None
        client.register_plugin(Copies())

    def __call__(self, data: Any) -> Future:
        """Brings one object, which pickle can write, to all workers there are.

        Returns:
            a future that is done, with a replica on each worker whose host has a copy: tasks that take it move nothing.

        Raises:
            GavotteError: when a worker's host is not in the inventory.
            AgentError: when nobody could be reached.
        """
        workers = self._workers()
        if not workers:
            raise GavotteError("the cluster has no workers", hint="wait for them: client.wait_for_workers(1)")
        targets = sorted(set(workers.values()) - {self._source})
        name = f"gavotte-{secrets.token_hex(8)}"
        path = Path(self._folder) / f"{name}-{self._source}"
        paths = {self._source: str(path)}
        try:
            with path.open("xb") as file:
                path.chmod(0o600)
                file.writelines(packed(data))
            if targets:
                self.last = self._to(targets).send(str(path), name)
                paths |= {each.host: each.path for each in self.last.receivers if each.ok}
                for host, why in self.last.lost.items():
                    logger.warning("%s has no copy: %s", host, why)
            return self._told(data, {worker: paths[host] for worker, host in workers.items() if host in paths})
        finally:
            hosts = {host: worker for worker, host in workers.items() if host in paths}
            self._client.run(_remove, list(paths.values()), workers=list(hosts.values()), on_error="ignore")
            with suppress(OSError):
                path.unlink()

    def _workers(self) -> dict[str, str]:
        """Each worker's address and host."""
        hosts = {host.address: host.name for host in self._inventory.host}
        found = {}
        for address, about in self._client.scheduler_info(n_workers=-1)["workers"].items():
            if about["host"] not in hosts:
                raise GavotteError(
                    f"the worker at {address} is on no host of the inventory", hint="give its host that address there"
                )
            found[address] = hosts[about["host"]]
        return found

    def _to(self, targets: Sequence[str]) -> Broadcast:
        if self._sending is None or self._sending.targets != targets:
            self._sending = Broadcast(
                self._inventory,
                self._source,
                targets=targets,
                network=self._network,
                mechanism=self._mechanism,
                folder=self._folder,
                seed=self._seed,
            )
        return self._sending

    def _told(self, data: Any, copies: dict[str, str]) -> Future:
        """Has workers take their copies, and the scheduler know of them."""
        if not copies:
            raise GavotteError("no worker's host has a copy", hint="the log says why")
        key = f"{type(data).__name__}-gavotte-{secrets.token_hex(16)}"
        weights = self._client.run(_take, key, copies, workers=list(copies))
        self._client.sync(
            self._client.scheduler.update_data,
            who_has={key: list(copies)},
            nbytes={key: max(weights.values())},
            client=self._client.id,
        )
        return Future(key, self._client)


def _take(key: str, copies: dict[str, str], dask_worker: Worker) -> int:
    plugin: Copies = dask_worker.plugins[Copies.name]
    return plugin.take(key, copies[dask_worker.address])


def _remove(paths: Iterable[str]) -> None:
    """Those that are on this host; what workers have mapped stays theirs."""
    for path in paths:
        with suppress(OSError):
            Path(path).unlink()


def _own(inventory: Inventory) -> str:
    own = {get_ip(), socket.gethostname()}
    with suppress(OSError):
        own |= {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)}
    found = next((host.name for host in inventory.host if host.address in own or host.name in own), None)
    if found is None:
        raise GavotteError("this machine is not a host of the inventory", hint="name it by `source`")
    return found


def packed(data: Any) -> list[bytes | memoryview]:
    """An object as bytes to write: the number of its buffers, how long each is, and the buffers, the pickle first."""
    buffers: list[Any] = []
    first = dumps(data, buffer_callback=buffers.append)
    frames = [memoryview(first), *(buffer.raw() for buffer in buffers)]
    head = struct.pack(f"<{1 + len(frames)}Q", len(frames), *(frame.nbytes for frame in frames))
    parts: list[bytes | memoryview] = []
    for frame in (memoryview(head), *frames):
        parts += [frame, bytes(-frame.nbytes % ALIGNED)]
    return parts


def unpack(content: memoryview) -> Any:
    """What `packed` wrote; its buffers are those of `content`.

    Raises:
        GavotteError: when it wrote something else.
    """
    try:
        (count,) = struct.unpack_from("<Q", content)
        lengths = struct.unpack_from(f"<{count}Q", content, 8)
        at, frames = _padded(8 + 8 * count), []
        for length in lengths:
            frames.append(content[at : at + length])
            at += _padded(length)
        return loads(frames[0], buffers=frames[1:])
    except (struct.error, IndexError, OverflowError, MemoryError, EOFError, UnpicklingError):
        raise GavotteError("a copy is not what a `Scatter` sends", hint="use one Gavotte everywhere") from None


def _padded(length: int) -> int:
    return length + -length % ALIGNED
