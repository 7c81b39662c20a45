"""Send a large object to all workers of a Dask cluster by a broadcast instead of Dask's own copying."""

from __future__ import annotations

import logging
import math
import secrets
import socket
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from gavotte.agents import with_addresses
from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes
from gavotte.transfer.applications import MEMORY, Broadcast, read_copy
from gavotte.transfer.outcome import BroadcastResult
from gavotte.transfer.planning import Mechanism

with needs("dask"):
    from distributed import Client, Future, Worker
    from distributed.diagnostics.plugin import WorkerPlugin
    from distributed.protocol.pickle import dumps, loads
    from distributed.utils import get_ip

logger = logging.getLogger(__name__)

PAYS_FROM_BYTES = {2: 4_000_000, 4: 2_000_000}
"""Number of workers, and size from which on a broadcast is faster than Dask's own scatter (`make bench-dask`).

A broadcast costs calls to agents and new connections, while Dask has its connections already. Dask copies an object in
rounds, so four workers make the size smaller than two. With more workers the size of four holds: eight hosts of a lab
share two cores, which shows nothing about hosts with cores of their own. One worker gets objects from Dask.
"""

ALIGNED = 64
"""Each buffer of an object begins at a multiple of this many bytes, as NumPy prefers it."""


class Copies(WorkerPlugin):  # type: ignore[misc]  # Dask's types are not read
    """Dask plugin that moves received copies into a worker's memory. `Scatter` registers it."""

    name = "gavotte-copies"

    def setup(self, worker: Worker) -> None:
        """Remember the worker that this plugin belongs to."""
        self._worker = worker

    def take(self, key: str, path: str) -> int:
        """Put the object of a copy under a key of Dask's; return the size that Dask assumes for it, in bytes."""
        reply = self._worker.update_data({key: unpack(read_copy(path))})
        return int(reply["nbytes"][key])


class Scatter:
    """Sender of objects from this process to all workers of a cluster.

    Args:
        client: the cluster's client, a synchronous one.
        inventory: the hosts. Workers are found by their addresses. This process runs on one of the hosts.
        source: that host; None = the one with an address of this machine.
        network: the Network between the hosts; None = the first call probes each host's port.
        mechanism: how; `auto` chooses the one with the shortest predicted time.
        folder: absolute path of the folder for copies until workers have read them.
        seed: seed of all random choices.
        least_bytes: objects that are smaller when pickled are sent by Dask's own scatter; 0 = none; None = by the
            number of workers, as `pays_from_bytes` says.

    Attributes:
        last: result of the newest broadcast; None = none was needed, or Dask's own scatter sent the object.
        way: how the newest object was sent, and why, in one line; the log has it as well. Empty before the first.

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
        least_bytes: int | None = None,
    ) -> None:
        self.last: BroadcastResult | None = None
        self.way = ""
        self._client = client
        self._inventory = inventory
        self._network = network
        self._mechanism: Mechanism = mechanism
        self._folder = folder
        self._seed = seed
        self._least_bytes = least_bytes
        self._source = _own(inventory) if source is None else source
        self._sending: Broadcast | None = None
        client.register_plugin(Copies())

    def __call__(self, data: Any) -> Future:
        """Send one object, which pickle must support, to all present workers.

        Returns:
            a future that is done, with a replica on each worker whose host has a copy. Tasks that use it move nothing.

        Raises:
            GavotteError: when a worker's host is not in the inventory.
            AgentError: when no host could be reached.
        """
        workers = self._workers()
        if not workers:
            raise GavotteError("the cluster has no workers", hint="wait for them: client.wait_for_workers(1)")
        parts = packed(data)
        self.last = None
        if self._is_left_to_dask(sum(memoryview(part).nbytes for part in parts), len(workers)):
            return self._client.scatter(data, broadcast=True, hash=False)
        targets = sorted(set(workers.values()) - {self._source})
        name = f"gavotte-{secrets.token_hex(8)}"
        path = Path(self._folder) / f"{name}-{self._source}"
        paths = {self._source: str(path)}
        try:
            _store(path, parts)
            if targets:
                self.last = self._to(targets).send(str(path), name)
                paths |= {each.host: each.path for each in self.last.receivers if each.ok}
                for host, why in self.last.lost.items():
                    logger.info("%s has no copy: %s", host, why)
            return self._known(data, {worker: paths[host] for worker, host in workers.items() if host in paths})
        finally:
            hosts = {host: worker for worker, host in workers.items() if host in paths}
            self._client.run(_remove, list(paths.values()), workers=list(hosts.values()), on_error="ignore")
            with suppress(OSError):
                path.unlink()

    def _is_left_to_dask(self, size_bytes: float, workers: int) -> bool:
        """Return whether Dask's own scatter sends an object of this size, and say so."""
        least_bytes = pays_from_bytes(workers) if self._least_bytes is None else self._least_bytes
        small = size_bytes < least_bytes
        how = "Dask's own scatter" if small else "a broadcast"
        begin = f"are used from {format_bytes(least_bytes)} on" if math.isfinite(least_bytes) else "never pay"
        self.way = f"{format_bytes(size_bytes)} to {counted(workers, 'worker')} by {how}; broadcasts {begin}"
        logger.info("%s", self.way)
        return small

    def _workers(self) -> dict[str, str]:
        """Return each worker's address and host."""
        names = {host.address: host.name for host in with_addresses(self._inventory).host}
        hosts = {}
        for address, about in self._client.scheduler_info(n_workers=-1)["workers"].items():
            if about["host"] not in names:
                raise GavotteError(
                    f"the worker at {address} is on no host of the inventory",
                    hint="give its host that address in the inventory",
                )
            hosts[address] = names[about["host"]]
        return hosts

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

    def _known(self, data: Any, copies: dict[str, str]) -> Future:
        """Let workers read their copies, and make them known to the scheduler."""
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


def pays_from_bytes(workers: int) -> float:
    """Return the size from which on a broadcast to this many workers is faster than Dask's own scatter."""
    known = [count for count in PAYS_FROM_BYTES if count <= workers]
    return PAYS_FROM_BYTES[max(known)] if known else math.inf


def write(key: str, path: str, dask_worker: Worker) -> None:
    """Write a worker's object to a new file, as its user's own."""
    _store(Path(path), packed(dask_worker.data[key]))


def copied(key: str, path: str, dask_worker: Worker) -> None:
    """Put the object of a copy into a worker's memory."""
    dask_worker.update_data({key: unpack(read_copy(path))})


def remove(path: str) -> None:
    """Remove a copy on this host, if it is present. Mappings of workers stay valid."""
    with suppress(OSError):
        Path(path).unlink()


def _store(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    with path.open("xb") as file:
        path.chmod(0o600)
        file.writelines(parts)


def _take(key: str, copies: dict[str, str], dask_worker: Worker) -> int:
    plugin: Copies = dask_worker.plugins[Copies.name]
    return plugin.take(key, copies[dask_worker.address])


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        remove(path)


def _own(inventory: Inventory) -> str:
    own = {get_ip(), socket.gethostname()}
    with suppress(OSError):
        own |= {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)}
    host = next((host.name for host in with_addresses(inventory).host if host.address in own or host.name in own), None)
    if host is None:
        raise GavotteError("this machine is not a host of the inventory", hint="name it by `source`")
    return host


def packed(data: Any) -> list[bytes | memoryview]:
    """Return an object as bytes to write: number of its buffers, length of each, and the buffers, the pickle first."""
    buffers: list[Any] = []
    first = dumps(data, buffer_callback=buffers.append)
    frames = [memoryview(first), *(buffer.raw() for buffer in buffers)]
    head = struct.pack(f"<{1 + len(frames)}Q", len(frames), *(frame.nbytes for frame in frames))
    parts: list[bytes | memoryview] = []
    for frame in (memoryview(head), *frames):
        parts += [frame, bytes(-frame.nbytes % ALIGNED)]
    return parts


def unpack(content: memoryview) -> Any:
    """Read what `packed` wrote; its buffers are those of `content`.

    Raises:
        GavotteError: when something else wrote it.
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
        raise GavotteError(
            "the copy was not written by a `Scatter`", hint="use one version of Gavotte on all hosts"
        ) from None


def _padded(length: int) -> int:
    return length + -length % ALIGNED
