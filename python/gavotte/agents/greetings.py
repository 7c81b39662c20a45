"""Let hosts greet each other in rounds, and name the paths on which long packets vanish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gavotte.agents.fleet import Budget, Fleet
from gavotte.errors import AgentError

MOST_PEERS = 64
"""Each host greets at most this many others at the same time."""

Pair = tuple[str, str]
"""Source and target of a path, by name."""

SHOWN = 3
"""Most hosts or paths that a line names."""

HOLD_S = 60.0
"""The run ends long before this. If the controller dies, the lease ends the run."""


def rounds(hosts: int) -> list[list[int]]:
    """Return how far ahead in the list each host's peers are, round by round.

    In all rounds together, each host greets every other once. In a round, each host greets and is greeted by at most
    `MOST_PEERS`. The first round's are spread evenly.
    """
    others = hosts - 1
    if others <= MOST_PEERS:
        return [list(range(1, hosts))]
    first = [1 + place * others // MOST_PEERS for place in range(MOST_PEERS)]
    rest = sorted(set(range(1, hosts)) - set(first))
    return [first, *(rest[at : at + MOST_PEERS] for at in range(0, len(rest), MOST_PEERS))]


def narrow_paths(fleet: Fleet) -> dict[Pair, int]:
    """Return the largest packet, in bytes, of each path on which longer packets vanish and no router reports it.

    Each host greets the others over TCP with full segments. If there are more than `MOST_PEERS`, it greets a selection.
    Enrols the fleet's agents and releases them. Paths between hosts that do not take part are left out.

    Args:
        fleet: agents that were checked, in a shared run that is not enrolled yet.
    """
    try:
        fleet.enrol(Budget(max_bytes=1, max_seconds=HOLD_S))
        names = [host.name for host in fleet.hosts]
        ahead = rounds(len(names))[0] if len(names) > 1 else []
        peers = {name: [names[(at + step) % len(names)] for step in ahead] for at, name in enumerate(names)}
        greeted = fleet.greet(peers, tcp_only=True) if ahead else {}
    except AgentError:
        return {}
    finally:
        fleet.release()
    return {
        (source, each.peer): each.mtu_bytes
        for source, greetings in greeted.items()
        if not isinstance(greetings, AgentError)
        for each in greetings
        if each.mtu_bytes
    }


def narrow_path_warnings(mtus_bytes: Mapping[Pair, int]) -> list[str]:
    """Return a line that names the paths on which long packets vanish, with the remedy; nothing without such a path.

    Args:
        mtus_bytes: the largest packet that arrives, by source and target.
    """
    if not mtus_bytes:
        return []
    sources = list(dict.fromkeys(source for source, _ in mtus_bytes))
    return [
        f"packets of more than {min(mtus_bytes.values())} bytes vanish without a report of any router, so TCP of "
        f"applications stalls: {_some([f'{source} to {target}' for source, target in mtus_bytes])}; run "
        f"`sysctl -w net.ipv4.tcp_mtu_probing=1` on {_some(sources)}, or let ICMP's `packet too big` pass"
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
