"""Orders of ranks that a user without Gavotte may choose."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import cycle, islice

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.topology import Topology
from gavotte.place import Effort, Question, decide, with_slots


def in_turn(hosts: Sequence[str], ranks: int) -> list[str]:
    """Deal ranks out to the hosts, one after the other."""
    return list(islice(cycle(hosts), ranks))


def at_random(slots: Mapping[str, int], ranks: int, seed: int) -> list[str]:
    """Draw a place for each rank."""
    places = [host for host, count in slots.items() for _ in range(count)]
    return random.Random(seed).sample(places, ranks)


def by_racks(topology: Topology, slots: Mapping[str, int], ranks: int) -> list[str]:
    """Fill one true rack after the other, the largest first.

    This is what a launcher that treats each switch as a node would do if the tenant could see the switches.
    """
    racks: dict[str, list[str]] = {}
    for host in topology.host:
        if host.name in slots:
            racks.setdefault(_switch(topology, host.name), []).extend([host.name] * slots[host.name])
    filled = sorted(racks.values(), key=len, reverse=True)
    return [place for rack in filled for place in rack][:ranks]


def greedy(network: Network, app: App, slots: Mapping[str, int]) -> list[str]:
    """Return the order that Choreo's greedy placement gives."""
    names = [task.name for task in app.task]
    one_core = [task.model_copy(update={"cpus": 1.0, "memory_bytes": 0, "storage_bytes": 0}) for task in app.task]
    question = Question(with_slots(network, slots), [app.model_copy(update={"task": one_core})])
    assignment = decide(question, Effort(method="greedy")).placement.assignment
    return [assignment.get(name) or assignment[f"{app.name}/{name}"] for name in names]


def _switch(topology: Topology, name: str) -> str:
    host = next(each for each in topology.host if each.name == name)
    if host.machine is not None:
        return next(each.switch for each in topology.machine if each.name == host.machine)
    return str(host.switch)
