"""Read a Topology or a Network and convert it for the compiled simulator."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network, read_network
from gavotte.formats.topology import Host, Switch, Topology, read_topology


def read_platform(path: str | Path) -> Topology | Network:
    """Read a Network from a file whose name ends in `.json`, or a Topology from any other file.

    Raises:
        FormatError: naming file, field and remedy.
    """
    return read_network(path) if Path(path).suffix == ".json" else read_topology(path)


def host_names(network: Topology | Network) -> list[str]:
    """Return the names of a network's hosts, in the order of their indices."""
    return [host.name for host in network.host] if isinstance(network, Topology) else network.names


def build_platform(network: Topology | Network, payload_share: float, seed: int) -> _core.Platform:
    """Convert a network to the form that the compiled simulator uses.

    Args:
        network: hosts and the links between them.
        payload_share: share of a Topology's rates that carries the flows' bytes.
        seed: decides which of several equal paths each flow takes.

    Raises:
        GavotteError: when the network is invalid.
    """
    try:
        if isinstance(network, Topology):
            return _core.Platform.topology(network, payload_share, seed)
        return _core.Platform.network(_core.Network(network.cautious()))
    except ValueError as error:
        raise GavotteError(str(error)) from None


def unmodelled(network: Topology | Network, *, guarded: bool = False) -> list[str]:
    """Return a warning for each key of a Topology that the simulator ignores.

    Args:
        network: hosts and the links between them.
        guarded: whether hosts have guarantees, so that the simulator has round trips of its own.
    """
    if isinstance(network, Network):
        return []
    parts: list[Switch | Host] = [*network.switch, *network.host]
    warnings = []
    if guarded and any(part.loss for part in parts):
        warnings.append(
            "`loss` is ignored with guarantees: flows get the rates that they would get without it, which TCP may not "
            "reach"
        )
    if guarded and any(part.mean_latency_s for part in parts):
        warnings.append("`latency` and `jitter` are ignored with guarantees")
    return warnings


def check_pairs(network: Topology | Network, pairs: Iterable[tuple[int, int]]) -> None:
    """Raise an error for flows on a path that a Network has no data for, because they would take no time at all.

    Args:
        network: hosts and the links between them.
        pairs: indices of the sending and the receiving host of each flow.

    Raises:
        GavotteError: naming the first such pair.
    """
    if isinstance(network, Network):
        network.check_pairs(pairs)
