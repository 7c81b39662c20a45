"""Transfers as a program makes them again and again: hosts are named, and their ports probed, once."""

from __future__ import annotations

import mmap
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.agents import Budget, enrolled
from gavotte.errors import GavotteError
from gavotte.formats.byte_matrix import HostBytes
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.transfer.broadcasting import HOST, Buffer, broadcast, receivers_of
from gavotte.transfer.carrying import ShuffleResult, shuffle
from gavotte.transfer.conducting import CONGESTION
from gavotte.transfer.outcome import BroadcastResult
from gavotte.transfer.planning import Mechanism, nothing_known
from gavotte.transfer.probing import PROBE_S, look
from gavotte.transfer.shuffling import wss_bound

PROBE_LIMIT_S = 60.0
"""How long it may take to probe the ports."""

MEMORY = "/dev/shm"
"""Where copies are kept unless the user says otherwise: files there are memory."""


class Broadcast:
    """Broadcasts from one host to others.

    Args:
        inventory: where the hosts are.
        source: the host that has the objects.
        targets: who is to have them; None = all hosts but the source.
        network: what is known of the hosts; None = the first `send` probes each one's port, for all that follow.
        mechanism: how; `auto` takes the fastest predicted.
        folder: where copies are kept at the receivers, absolute.
        max_seconds: when one broadcast gives up.
        seed: of all random choices.

    Raises:
        GavotteError: for hosts that the inventory does not have.
    """

    def __init__(
        self,
        inventory: Inventory,
        source: str,
        *,
        targets: Sequence[str] | None = None,
        network: Network | None = None,
        mechanism: Mechanism = "auto",
        folder: str = MEMORY,
        max_seconds: float = 3600.0,
        seed: int = 0,
    ) -> None:
        self.source = source
        self.targets = receivers_of(inventory, source, targets)
        self.network = network
        self._inventory = inventory
        self._mechanism: Mechanism = mechanism
        self._folder = folder
        self._max_seconds = max_seconds
        self._seed = seed

    def send(self, content: Buffer | str, name: str = "", **options: Any) -> BroadcastResult:
        """Brings an object to all receivers.

        Args:
            content: an object of bytes, if the source is on this machine; or the absolute path of a file at the source.
            name: of the copies, a plain file name; empty = one that nobody else has.
            options: `watch`, `planned` or `block_bytes` of `broadcast`.

        Returns:
            what became of each receiver, and at which path its copy is; `read_copy` opens it there. Who does not have
            it is in its `lost`.

        Raises:
            GavotteError: when hosts and paths do not belong together.
            AgentError: when the source cannot send.
        """
        name = name or f"gavotte-{secrets.token_hex(8)}"
        if "/" in name or name in (".", ".."):
            raise GavotteError(f"`{name}` is not a plain file name", hint="leave folders out; `folder` is for them")
        if self.network is None:
            self.network = _probed(self._inventory, [self.source, *self.targets])
        return broadcast(
            content,
            self._inventory,
            self.source,
            f"{self._folder}/{name}-{HOST}",
            targets=self.targets,
            network=self.network,
            mechanism=self._mechanism,
            max_seconds=self._max_seconds,
            seed=self._seed,
            **options,
        )


class Shuffle:
    """Shuffles among hosts, at the rates of weighted shuffle scheduling. The bytes that move are the agents' own.

    Args:
        inventory: where the hosts are.
        network: what is believed of what joins them: it gives the rates and the bound.
        hosts: what rows and columns of a matrix stand for; None = the Network's, in its order.
        mode: one of `MODES`.
        max_seconds: when one shuffle gives up.
    """

    def __init__(
        self,
        inventory: Inventory,
        network: Network,
        *,
        hosts: Sequence[str] | None = None,
        mode: str = "paced",
        max_seconds: float = 3600.0,
    ) -> None:
        self.hosts = list(network.names if hosts is None else hosts)
        self._inventory = inventory
        self._network = network
        self._mode = mode
        self._max_seconds = max_seconds

    def flows(self, matrix: npt.ArrayLike | Mapping[tuple[str, str], int]) -> list[HostBytes]:
        """The flows of a matrix.

        Args:
            matrix: (N, N) bytes from the row's host to the column's; or bytes by source and target.

        Raises:
            GavotteError: for a matrix of another shape, or sizes that are not whole numbers of bytes.
        """
        if isinstance(matrix, Mapping):
            found = [HostBytes(source, target, int(size)) for (source, target), size in matrix.items() if size]
        else:
            sizes = np.asarray(matrix)
            count = len(self.hosts)
            if sizes.shape != (count, count):
                shape = " x ".join(map(str, sizes.shape)) or "one number"
                raise GavotteError(f"a matrix of {shape} for {count} hosts", hint=f"give {count} x {count} bytes")
            if not np.issubdtype(sizes.dtype, np.number) or not (np.isfinite(sizes) & (sizes == np.floor(sizes))).all():
                raise GavotteError("the matrix has sizes that are not whole numbers of bytes", hint="round them")
            found = [
                HostBytes(self.hosts[m], self.hosts[n], int(sizes[m, n])) for m, n in np.argwhere(sizes != 0).tolist()
            ]
        below = next((flow for flow in found if flow.bytes < 0), None)
        if below is not None:
            raise GavotteError(f"{below.bytes} bytes from {below.source} to {below.target}", hint="use 0 or more")
        return found

    def bound_s(self, matrix: npt.ArrayLike | Mapping[tuple[str, str], int]) -> float:
        """How long it takes at least, by the Network."""
        flows = [(flow.source, flow.target, float(flow.bytes)) for flow in self.flows(matrix)]
        return wss_bound(self._network, flows)[0]

    def send(self, matrix: npt.ArrayLike | Mapping[tuple[str, str], int]) -> ShuffleResult:
        """Moves so many bytes.

        Args:
            matrix: as of `flows`.

        Raises:
            GavotteError: for a matrix that makes no sense, or a host that Network or inventory do not have.
            AgentError: when a host fails before all bytes arrived.
        """
        return shuffle(
            self.flows(matrix), self._inventory, self._network, mode=self._mode, max_seconds=self._max_seconds
        )


def read_copy(path: str | Path) -> memoryview:
    """What a broadcast has brought, without copying it: the file's pages, which are read when they are needed.

    Raises:
        GavotteError: when there is no such file.
    """
    try:
        with Path(path).open("rb") as file:
            if not file.seek(0, 2):
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise GavotteError(f"{path}: {error.strerror}", hint="read a copy on the host that it was brought to") from None


def _probed(inventory: Inventory, names: Sequence[str]) -> Network:
    """The ports of hosts, each probed for `PROBE_S`."""
    used = inventory.model_copy(update={"host": [host for host in inventory.host if host.name in set(names)]})
    budget = Budget(max_bytes=1 << 62, max_seconds=PROBE_S + PROBE_LIMIT_S)
    with enrolled(used, budget, purpose="probe ports", shared=True) as fleet:
        there = [name for name in names if name not in fleet.missing]
        known = look(fleet, there, congestion=CONGESTION) if len(there) > 1 else nothing_known(there)
    caps = {host.name: host for host in known.hosts}
    whole = nothing_known(names)
    return whole.model_copy(update={"hosts": [caps.get(host.name, host) for host in whole.hosts]})
