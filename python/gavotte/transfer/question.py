"""Request for a broadcast, and the functions that a broadcast calls while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, unknown_host
from gavotte.transfer.caching import HostCache
from gavotte.transfer.planning import BroadcastPlan, Mechanism
from gavotte.transfer.shuffling import Flow

HOST = "{host}"
"""Placeholder for the receiver's name in an output path."""

Buffer = bytes | bytearray | memoryview

Watch = Callable[[str, int, int], None]
"""Called with a receiver, the bytes that it has, and all bytes."""


class Pacing(Protocol):
    """Source of rate limits and further receivers for a broadcast while it runs."""

    def under_way(self, flows: Sequence[Flow]) -> None:
        """Accept parent, child and bytes left of each subscription. One without an entry in `limits` waits."""

    def limits(self) -> Mapping[tuple[str, str], float]:
        """Return changes since the last call: parent and child to bit/s; infinite = no limit, 0 = it waits."""

    def newcomers(self, *, ending: bool) -> Sequence[tuple[str, str]]:
        """Return hosts added since the last call, with the paths of their copies. With `ending`, none may follow."""

    def stopped(self) -> bool:
        """Return whether the broadcast is to end."""


@dataclass(frozen=True)
class BroadcastQuestion:
    """Which hosts get which object, and by what.

    Attributes:
        content: absolute path of the file at the source; or an object of bytes, if the source is on this machine.
        inventory: the hosts' addresses and agents.
        source: the host that has it.
        output: absolute path of the copies, with `{host}` for each receiver's name.
        targets: receiving hosts; None = all hosts but the source.
        network: the Network between the hosts; None = each host's port is probed for half a second, and trees follow
            what their edges carry. If guarantees limit what a host may send, nothing is probed, and flows are not
            paced: such limits follow demand.
        mechanism: how; `auto` chooses the one with the shortest predicted time.
        block_bytes: unit of checking and of repeated requests; 0 = a size that suits the file.
        max_seconds: when to give up.
        wait_s: missing receivers are retried until the others have it, plus this long.
        seed: seed of all random choices.
        probed: whether `network` comes from an earlier probe of the ports. Times by it are estimates and no bounds, and
            it is not used where guarantees limit hosts meanwhile.
        cache: the receivers' caches, whose blocks are not sent again, and which get the copies' blocks; None = none.
        encrypt: whether blocks are encrypted between hosts.
    """

    content: str | Buffer
    inventory: Inventory
    source: str
    output: str
    targets: Sequence[str] | None = None
    network: Network | None = None
    mechanism: Mechanism = "auto"
    block_bytes: int = 0
    max_seconds: float = 3600.0
    wait_s: float = 0.0
    seed: int = 0
    probed: bool = False
    cache: HostCache | None = None
    encrypt: bool = False

    @cached_property
    def sender(self) -> str:
        """Name of the source, as the inventory spells it."""
        return known_as(self.source, self.inventory.names)

    @cached_property
    def receivers(self) -> list[str]:
        """Names of the receivers, as the inventory spells them.

        Raises:
            GavotteError: for hosts that the inventory does not have, one that is named twice, or none at all.
        """
        return receivers_of(self.inventory, self.source, self.targets)

    @cached_property
    def paths(self) -> dict[str, str]:
        """Path of the copy at each receiver, by the receiver's name.

        Raises:
            GavotteError: when the output is not the absolute path of a file, or as for `receivers`.
        """
        return output_paths(self.output, self.receivers)

    def hosts(self, names: Sequence[str]) -> Inventory:
        """Return the inventory of some of its hosts."""
        return self.inventory.model_copy(update={"host": [each for each in self.inventory.host if each.name in names]})


@dataclass(frozen=True)
class BroadcastSession:
    """Functions that a broadcast calls while it runs, and the file that it writes.

    Attributes:
        planned: called with the plan before the start.
        watch: called with the progress of each receiver.
        pacing: decides each flow's rate limit and adds receivers; None = no limits, no further receivers.
        times: file with Cornet's block transfer times, from which `clustering` learns; None = in the user's cache.
    """

    planned: Callable[[BroadcastPlan], None] | None = None
    watch: Watch | None = None
    pacing: Pacing | None = None
    times: Path | None = None


SILENT = BroadcastSession()
"""A session that calls nothing."""


def output_paths(output: str, receivers: Sequence[str]) -> dict[str, str]:
    """Return the path of each receiver's copy.

    Raises:
        GavotteError: when it is not the absolute path of a file.
    """
    where = PurePosixPath(output)
    if not where.is_absolute() or output.endswith("/") or ".." in where.parts:
        raise GavotteError(
            f"the output path `{output}` is not the absolute path of a file", hint="give one, as `/tmp/copy-{host}`"
        )
    return {name: output.replace(HOST, name) for name in receivers}


def receivers_of(inventory: Inventory, source: str, targets: Sequence[str] | None) -> list[str]:
    """Return the receivers: `targets`, or all hosts but the source.

    Raises:
        GavotteError: for hosts that the inventory does not have, one that is named twice, or none at all.
    """
    names = [host.name for host in inventory.host]
    source = known_as(source, names)
    receivers = (
        [name for name in names if name != source] if targets is None else [known_as(each, names) for each in targets]
    )
    for name in (source, *receivers):
        if name not in names:
            raise unknown_host(name, names, "the inventory")
    if source in receivers:
        raise GavotteError(f"`{source}` has the file already", hint="leave the source out of the receivers")
    if len(set(receivers)) < len(receivers):
        raise GavotteError("a receiver is named twice", hint="name each once")
    if not receivers:
        raise GavotteError("there is no receiver", hint="an inventory needs a second host in addition to the source")
    return receivers
