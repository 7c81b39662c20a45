"""Test the data plane between hosts: both protocols, both directions, each pair.

Input: enrolled agents. Output: one `Path` per pair. The agents send each other a few packets and measure nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gavotte.agents import Budget, Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.greetings import HOLD_S, rounds
from gavotte.errors import AgentError
from gavotte.formats.inventory import without_zone

OK = "ok"
REFUSED = "refused"
SILENT = "no answer"
UNREACHABLE = "unreachable"
FORBIDDEN = "forbidden"
TURNED_AWAY = "turned away"
ANSWER_LOST = "answer lost"
"""The greeting has arrived, but its answer has not come back."""

RECEPTIONS = {
    pb.RECEPTION_ANSWERED: OK,
    pb.RECEPTION_REFUSED: REFUSED,
    pb.RECEPTION_SILENT: SILENT,
    pb.RECEPTION_UNREACHABLE: UNREACHABLE,
    pb.RECEPTION_FORBIDDEN: FORBIDDEN,
    pb.RECEPTION_TURNED_AWAY: TURNED_AWAY,
}
"""Possible outcomes of a greeting, in words."""

TESTS_S = 10.0
"""Time after which no further greetings begin. On a few hundred hosts, all pairs are greeted by then."""


@dataclass(frozen=True)
class Path:
    """One direction between two hosts.

    Attributes:
        source: host that greeted.
        target: host that was greeted.
        source_address: IP address at which the target reaches the source.
        target_address: IP address at which the source reaches the target.
        port: data port of the target, for both protocols.
        tcp: one of the words of `RECEPTIONS`.
        udp: likewise, or `ANSWER_LOST`.
        tcp_error: what the source's agent reported; empty when TCP works.
        udp_error: likewise.
        mtu_bytes: size of the largest packets that arrive, if longer ones vanish and no router reports it; 0 = no such
            limit is known.
    """

    source: str
    target: str
    source_address: str
    target_address: str
    port: int
    tcp: str
    udp: str
    tcp_error: str = ""
    udp_error: str = ""
    mtu_bytes: int = 0

    @property
    def usable(self) -> bool:
        """Whether a run can use it: everything but trains and guarantees works over TCP alone."""
        return self.tcp == OK

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        return dataclasses.asdict(self) | {"usable": self.usable}


def try_paths(fleet: Fleet, names: Sequence[str]) -> tuple[tuple[Path, ...], list[str]]:
    """Let every host greet every other, for at most `TESTS_S`. Enrols the fleet's agents and releases them.

    Args:
        fleet: agents that were checked, in a shared run that is not enrolled yet.
        names: hosts to test; the others are not contacted.

    Returns:
        one for each tested pair, by source and target in the inventory's order, and a warning for each host whose
        paths were not tested. Hosts whose agents are too old or do not take part are left out.
    """
    fleet.hosts = [host for host in fleet.hosts if host.name in set(names)]
    if len(fleet.hosts) < 2:
        return (), []
    warnings = []
    try:
        fleet.enrol(Budget(max_bytes=1, max_seconds=HOLD_S))
        deaf = fleet.listen([host.name for host in fleet.hosts])
        warnings += [f"{name}: its paths were not tested: {error.message}" for name, error in deaf.items()]
        fleet.hosts = [host for host in fleet.hosts if host.name not in deaf]
        paths, untested = _greeted(fleet)
        return paths, warnings + untested
    except AgentError as error:
        return (), [*warnings, f"paths were not tested: {error.message}"]
    finally:
        fleet.release()


def _greeted(fleet: Fleet) -> tuple[tuple[Path, ...], list[str]]:
    hosts = fleet.hosts
    places = {host.name: place for place, host in enumerate(hosts)}
    addresses = {host.name: {without_zone(each) for each in (host.address, *host.addresses)} for host in hosts}
    greetings, warnings = list[tuple[str, pb.Greeting]](), list[str]()
    until_s = time.monotonic() + TESTS_S
    for ahead in rounds(len(hosts)):
        sources = [host.name for host in hosts if host.name not in fleet.lost]
        peers = {name: [hosts[(places[name] + offset) % len(hosts)].name for offset in ahead] for name in sources}
        for source, answers in fleet.greet(peers).items():
            if isinstance(answers, AgentError):
                warnings.append(f"{source}: its paths were not tested: {answers.message}")
            else:
                greetings += [(source, each) for each in answers if each.peer in places]
        if warnings or time.monotonic() > until_s:
            break
    arrivals = fleet.heard(places)
    paths = [
        Path(
            source,
            each.peer,
            fleet.address(each.peer, source),
            fleet.address(source, each.peer),
            fleet.health[each.peer].data_port,
            RECEPTIONS.get(each.tcp, TURNED_AWAY),
            _udp_word(each, has_arrived=not addresses[source].isdisjoint(arrivals.get(each.peer, ()))),
            each.tcp_error,
            each.udp_error,
            each.mtu_bytes,
        )
        for source, each in greetings
    ]
    return tuple(sorted(paths, key=lambda path: (places[path.source], places[path.target]))), warnings


def _udp_word(greeting: pb.Greeting, *, has_arrived: bool) -> str:
    word = RECEPTIONS.get(greeting.udp, TURNED_AWAY)
    return ANSWER_LOST if word == SILENT and has_arrived else word
