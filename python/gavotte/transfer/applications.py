"""Repeated transfers of a program: the hosts are named, and their ports probed, only once."""

from __future__ import annotations

import mmap
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gavotte.agents import Budget, enrolled
from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.names import known_as
from gavotte.transfer.broadcasting import send
from gavotte.transfer.carrying import ShuffleResult, shuffle
from gavotte.transfer.outcome import BroadcastResult
from gavotte.transfer.planning import Mechanism, nothing_known
from gavotte.transfer.probing import PROBE_S, look
from gavotte.transfer.question import HOST, SILENT, BroadcastQuestion, BroadcastSession, Buffer, receivers_of
from gavotte.transfer.shuffling import wss_bound

PROBE_LIMIT_S = 60.0
"""Longest time that probing the ports may take."""

MEMORY = "/dev/shm"
"""Default folder of copies. Files in it are in memory."""


class Broadcast:
    """Broadcasts of objects from one host to others, for applications.

    Args:
        inventory: the hosts' addresses and agents.
        source: the host that has the objects.
        targets: receiving hosts; None = all hosts but the source.
        network: the Network between the hosts; None = the first `send` probes each host's port, for all later calls. As
            long as guarantees limit hosts, nothing is probed, and flows are not paced.
        mechanism: how; `auto` chooses the one with the shortest predicted time.
        folder: absolute path of the folder for copies at the receivers.
        max_seconds: when one broadcast gives up.
        seed: seed of all random choices.

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
        self.source = known_as(source, inventory.names)
        self.targets = receivers_of(inventory, source, targets)
        self.network = network
        self._probed = network is None
        self._inventory = inventory
        self._mechanism: Mechanism = mechanism
        self._folder = folder
        self._max_seconds = max_seconds
        self._seed = seed

    def send(
        self,
        content: Buffer | str,
        name: str = "",
        *,
        block_bytes: int = 0,
        session: BroadcastSession = SILENT,
        encrypt: bool = False,
    ) -> BroadcastResult:
        """Send an object to all receivers.

        Args:
            content: an object of bytes, if the source is on this machine; or the absolute path of a file at the source.
            name: name of the copies, a plain file name; empty = a unique one.
            block_bytes: as for `BroadcastQuestion`.
            session: what to call meanwhile.
            encrypt: as for `BroadcastQuestion`.

        Returns:
            the outcome of each receiver with the path of its copy, which `read_copy` opens on that host. Receivers
            without a copy are in its `lost`.

        Raises:
            GavotteError: when hosts and paths do not belong together.
            AgentError: when the source cannot send.
        """
        name = name or f"gavotte-{secrets.token_hex(8)}"
        if "/" in name or name in (".", ".."):
            raise GavotteError(f"`{name}` is not a plain file name", hint="leave folders out; `folder` is for them")
        if self.network is None:
            self.network = _probed(self._inventory, [self.source, *self.targets])
        question = BroadcastQuestion(
            content,
            self._inventory,
            self.source,
            f"{self._folder}/{name}-{HOST}",
            self.targets,
            self.network,
            self._mechanism,
            block_bytes,
            self._max_seconds,
            seed=self._seed,
            probed=self._probed,
            encrypt=encrypt,
        )
        return send(question, session)


class Shuffle:
    """Shuffles among hosts, at the rates of weighted shuffle scheduling. Agents generate the bytes that they send.

    Args:
        inventory: the hosts' addresses and agents.
        network: the Network between the hosts, for the rates and the bound.
        hosts: hosts of the rows and columns of a matrix; None = the Network's, in its order.
        mode: one of `MODES`.
        max_seconds: when one shuffle gives up.
        encrypt: whether the bytes are encrypted between hosts.
    """

    def __init__(
        self,
        inventory: Inventory,
        network: Network,
        *,
        hosts: Sequence[str] | None = None,
        mode: str = "paced",
        max_seconds: float = 3600.0,
        encrypt: bool = False,
    ) -> None:
        self.hosts = list(network.names if hosts is None else hosts)
        self._inventory = inventory
        self._network = network
        self._mode = mode
        self._encrypt = encrypt
        self._max_seconds = max_seconds

    def flows(self, matrix: npt.ArrayLike | Mapping[tuple[str, str], int]) -> list[HostBytes]:
        """Return the flows of a matrix.

        Args:
            matrix: (N, N) bytes from the row's host to the column's; or bytes by source and target.

        Raises:
            GavotteError: for a matrix of another shape, or sizes that are not whole numbers of bytes.
        """
        if isinstance(matrix, Mapping):
            flows = [HostBytes(source, target, int(size)) for (source, target), size in matrix.items() if size]
        else:
            sizes = np.asarray(matrix)
            count = len(self.hosts)
            if sizes.shape != (count, count):
                shape = " x ".join(map(str, sizes.shape)) or "one number"
                raise GavotteError(f"a matrix of {shape} for {count} hosts", hint=f"give {count} x {count} bytes")
            if not np.issubdtype(sizes.dtype, np.number) or not (np.isfinite(sizes) & (sizes == np.floor(sizes))).all():
                raise GavotteError("the matrix has sizes that are not whole numbers of bytes", hint="round them")
            flows = [
                HostBytes(self.hosts[m], self.hosts[n], int(sizes[m, n])) for m, n in np.argwhere(sizes != 0).tolist()
            ]
        below = next((flow for flow in flows if flow.bytes < 0), None)
        if below is not None:
            raise GavotteError(
                f"a negative size, {below.bytes} bytes from {below.source} to {below.target}", hint="use 0 or more"
            )
        return flows

    def bound_s(self, matrix: npt.ArrayLike | Mapping[tuple[str, str], int]) -> float:
        """Return the least time that it takes according to the Network."""
        flows = [(flow.source, flow.target, float(flow.bytes)) for flow in self.flows(matrix)]
        return wss_bound(self._network, flows)[0]

    def send(self, matrix: npt.ArrayLike | Mapping[tuple[str, str], int]) -> ShuffleResult:
        """Move the bytes of a matrix.

        Args:
            matrix: as for `flows`.

        Raises:
            GavotteError: for an invalid matrix, or a host that Network or inventory do not have.
            AgentError: when a host fails before all bytes arrived.
        """
        return shuffle(
            self.flows(matrix),
            self._inventory,
            self._network,
            mode=self._mode,
            max_seconds=self._max_seconds,
            encrypt=self._encrypt,
        )


def read_copy(path: str | Path) -> memoryview:
    """Return the content of a broadcast's copy without copying it: the file's pages, which are read on demand.

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


def _probed(inventory: Inventory, names: Sequence[str]) -> Network | None:
    """Return a Network with the ports of hosts, each probed for `PROBE_S`, or twice that; None next to guarantees."""
    used = inventory.model_copy(update={"host": [host for host in inventory.host if host.name in set(names)]})
    budget = Budget(max_bytes=1 << 62, max_seconds=2 * PROBE_S + PROBE_LIMIT_S)
    with enrolled(used, budget, purpose="probe ports", shared=True) as fleet:
        if fleet.guaranteed_bps():
            return None
        present = [name for name in names if name not in fleet.missing]
        return look(fleet, present, of=names) if len(present) > 1 else nothing_known(names)
