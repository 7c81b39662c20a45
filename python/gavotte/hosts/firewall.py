"""Find out which firewall rules are missing, from the fate of greetings between hosts.

Pairs that one rule explains are grouped: all pairs, all pairs to one host, all pairs from one host.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gavotte.hosts.paths import ANSWER_LOST, FORBIDDEN, OK, TURNED_AWAY, Path

_PASSED = {OK, TURNED_AWAY, ANSWER_LOST}


class _Need(NamedTuple):
    """Packets that one rule must allow: to a host, from a host, or between a pair; all packets when both are empty."""

    source: str
    target: str


def needed_rules(paths: Sequence[Path]) -> list[str]:
    """Return one line for each rule that is missing; none when every path carries both protocols.

    Args:
        paths: all that were tested.
    """
    missing: dict[_Need, list[str]] = defaultdict(list)
    for protocol in ("TCP", "UDP"):
        blocked = {_ends(path): path for path in paths if _word(path, protocol) not in _PASSED}
        for need in _needs([_ends(path) for path in paths], set(blocked)):
            missing[need].append(protocol)
    by_ends = {_ends(path): path for path in paths}
    closed = {need.target for need, protocols in missing.items() if "UDP" in protocols}
    lines = [_line(need, protocols, paths, by_ends) for need, protocols in missing.items()]
    # A host whose port is closed gets no answers either, if its firewall does not remember connections.
    lost = {path.source: path for path in paths if path.udp == ANSWER_LOST and "" not in closed}
    lines += [
        f"answers over UDP to {path.source} ({path.source_address}) are lost: let answers through, "
        f"or all UDP that comes from port {path.port}"
        for path in lost.values()
        if path.source not in closed
    ]
    return lines + [
        f"{path.source} finds no agent of this run at {path.target_address} port {path.port} ({path.tcp_error}); "
        f"correct the `address` of {path.target}, or of {path.source} if {path.target} sees it at another one"
        for path in paths
        if path.tcp == TURNED_AWAY
    ]


def _needs(tested: Sequence[tuple[str, str]], blocked: set[tuple[str, str]]) -> Iterable[_Need]:
    """Return the fewest rules that explain all blocked pairs, as found by a greedy search."""
    if len(blocked) == len(tested) > 1:
        yield _Need("", "")
        return
    left = set(blocked)
    for end in (1, 0):
        for host in dict.fromkeys(pair[end] for pair in tested):
            mine = {pair for pair in tested if pair[end] == host}
            # A group of one is less specific than the pair.
            if len(mine) > 1 and mine <= blocked and mine & left:
                left -= mine
                yield _Need("", host) if end else _Need(host, "")
    for pair in tested:
        if pair in left:
            yield _Need(*pair)


def _line(need: _Need, protocols: Sequence[str], paths: Sequence[Path], by_ends: dict[tuple[str, str], Path]) -> str:
    words = " and ".join(protocols)
    no_words = " and no ".join(protocols)
    mine = [
        path
        for path in paths
        if need.source in ("", path.source) and need.target in ("", path.target) and _is_blocked(path, protocols)
    ]
    ports = _ports(mine)
    if not need.source and not need.target:
        no_words = " or ".join(protocols)
        return f"no host accepts {no_words} from another: open {_opened(mine, protocols)} between all hosts"
    if not need.source:
        return f"host {need.target} accepts no {no_words}: open {_opened(mine, protocols)} on it"
    if not need.target:
        whose = "its own firewall" if all(_word(path, protocols[0]) == FORBIDDEN for path in mine) else "a firewall"
        address = mine[0].source_address
        allowed = f"{words} from {address} to {ports} of the others"
        return f"host {need.source} sends no {no_words}: {whose} must allow {allowed}"
    path = by_ends[need]
    happened = "; ".join(dict.fromkeys(_word(path, protocol) for protocol in protocols))
    return (
        f"allow {words} from {path.source} ({path.source_address}) to {path.target} ({path.target_address}) "
        f"port {path.port} ({happened})"
    )


def _ends(path: Path) -> tuple[str, str]:
    return path.source, path.target


def _word(path: Path, protocol: str) -> str:
    return path.tcp if protocol == "TCP" else path.udp


def _is_blocked(path: Path, protocols: Iterable[str]) -> bool:
    return any(_word(path, protocol) not in _PASSED for protocol in protocols)


def _ports(paths: Iterable[Path]) -> str:
    ports = sorted({path.port for path in paths})
    return f"port {ports[0]}" if len(ports) == 1 else "the data ports"


def _opened(paths: Iterable[Path], protocols: Iterable[str]) -> str:
    ports = sorted({path.port for path in paths})
    if len(ports) > 1:
        return "their data ports for " + " and ".join(protocols)
    return " and ".join(f"port {ports[0]}/{protocol.lower()}" for protocol in protocols)
