"""Draw the traffic of a placement as a ring of hosts with flows, and compute how long each host is busy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, degrees, hypot, pi, sin

import numpy as np

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.rates import format_bytes, format_rate
from gavotte.formats.placement import Placement
from gavotte.report.grid import LETTER_PX, coloured
from gavotte.terms.labels import shortened

SUNSET = ("f6c667", "f08a4b", "d1495b", "8b2f6b", "3b1c5a")
"""Palette of flows by the time they take: light = short, dark = long."""
FLOWS = 400
"""Most flows that are drawn: those with the most bytes."""
CROWD = 24
"""Most hosts that are all drawn. Of more hosts, only those with tasks are."""
RADIUS_PX = 150.0
SPACING_PX = 15.0
"""Least distance from one host on the ring to the next."""

Loads = dict[tuple[str, str], int]


@dataclass(frozen=True)
class Flow:
    """The arrow for the bytes from one host to another, wide at the sender and pointed at the receiver.

    Attributes:
        path: its outline as an SVG path.
        colour: its colour, `#rrggbb`.
        tip: the text that appears when the reader hovers over it.
    """

    path: str
    colour: str
    tip: str


@dataclass(frozen=True)
class Node:
    """A host on the ring, with its label.

    Attributes:
        x: pixels right of the ring's centre.
        y: pixels below the ring's centre.
        turn: rotation of the label in degrees.
        flip: whether the label would be upside down at this angle.
        label: short name and number of tasks.
        tip: the text that appears when the reader hovers over it.
        used: whether the host has tasks.
    """

    x: float
    y: float
    turn: float
    flip: bool
    label: str
    tip: str
    used: bool


@dataclass(frozen=True)
class Ring:
    """A picture of hosts in a circle and the flows between them.

    Attributes:
        box: left, top, width and height in pixels.
        nodes: the hosts.
        flows: the flows, smallest first.
        omitted: a sentence on the share of flows drawn; empty = all are.
    """

    box: tuple[float, float, float, float]
    nodes: list[Node]
    flows: list[Flow]
    omitted: str


@dataclass(frozen=True)
class Busy:
    """The tasks and traffic of one host under a placement.

    Attributes:
        host: name of the host.
        tasks: names of its tasks.
        sent: bytes to other machines, as text.
        received: bytes from other machines, as text.
        sent_s: seconds to send them at the host's egress cap; None = no cap is known.
        received_s: seconds to receive them at its ingress cap; None = no cap is known.
    """

    host: str
    tasks: list[str]
    sent: str
    received: str
    sent_s: float | None
    received_s: float | None


def host_bytes(apps: Sequence[App], placement: Placement) -> Loads:
    """Return the bytes from each host to each other host under a placement."""
    loads: Loads = defaultdict(int)
    for app in apps:
        prefix = f"{app.name}/" if len(placement.apps) > 1 else ""
        for transfer in app.transfer:
            source = placement.assignment[prefix + transfer.source]
            target = placement.assignment[prefix + transfer.target]
            if source != target:
                loads[source, target] += transfer.bytes
    return dict(loads)


def tasks_of(placement: Placement) -> dict[str, list[str]]:
    """Return the tasks of each host that has any, shorter names first, so that `t2` comes before `t10`."""
    tasks: dict[str, list[str]] = defaultdict(list)
    for task in sorted(placement.assignment, key=lambda task: (len(task), task)):
        tasks[placement.assignment[task]].append(task)
    return tasks


def ring(network: Network, placement: Placement, loads: Loads, scale_s: float) -> Ring:
    """Draw which hosts send to which. A flow of `scale_s` seconds, alone on its path, has the darkest colour."""
    tasks = tasks_of(placement)
    names = network.names if len(network.names) <= CROWD else [name for name in network.names if name in tasks]
    radius = max(RADIUS_PX, SPACING_PX * len(names) / (2 * pi))
    angle = {name: 2 * pi * k / len(names) for k, name in enumerate(names)}
    at = {name: ((radius - 9) * sin(a), -(radius - 9) * cos(a)) for name, a in angle.items()}
    nodes = []
    ends = []
    for (name, a), short in zip(angle.items(), shortened(names), strict=True):
        few = f"{len(tasks[name])} task{'s' * (len(tasks[name]) != 1)}" if name in tasks else "no task"
        label = short + (f" · {len(tasks[name])}" if name in tasks else "")
        tip = f"{name}: {few}\n{', '.join(tasks[name][:40])}" if name in tasks else f"{name}: {few}"
        x, y = radius * sin(a), -radius * cos(a)
        reach = 1 + (14 + LETTER_PX * len(label)) / radius
        ends += [(x - 8, y - 8), (x + 8, y + 8), (reach * x, reach * y)]
        nodes.append(Node(x, y, degrees(a) - 90, a > pi, label, tip, name in tasks))
    drawn = sorted(loads.items(), key=lambda item: -item[1])[:FLOWS]
    left_out = len(loads) - len(drawn)
    share = sum(size for _, size in drawn) / max(1, sum(loads.values()))
    index = {name: i for i, name in enumerate(network.names)}
    flows = []
    for (source, target), size in reversed(drawn):
        rate_bps = network.pair_bps(index[source], index[target])
        alone_s = 8 * size / rate_bps if rate_bps else 0.0
        tip = f"{source} to {target}\n{format_bytes(size)}" + (
            f"\n{alone_s:.3g} s at {format_rate(rate_bps)}" if rate_bps else "\nthe path's rate is not known"
        )
        red, green, blue = coloured(np.array(min(1.0, alone_s / scale_s)), SUNSET).tolist()
        width = 1 + 9 * size / drawn[0][1]
        flows.append(Flow(_wedge(at[source], at[target], width), f"#{red:02x}{green:02x}{blue:02x}", tip))
    (left, top), (right, bottom) = (tuple(edge(values) for values in zip(*ends, strict=True)) for edge in (min, max))
    return Ring(
        box=(left - 6, top - 6, right - left + 12, bottom - top + 12),
        nodes=nodes,
        flows=flows,
        omitted=f"the {len(drawn)} largest of {len(loads)} flows, {100 * share:.0f} % of the bytes" if left_out else "",
    )


def busy(network: Network, placement: Placement, loads: Loads) -> list[Busy]:
    """Return the traffic of each host that has tasks, the busiest first. Traffic within a machine does not count."""
    machine = {host.name: host.machine or host.name for host in network.hosts}
    tasks = tasks_of(placement)
    sent: dict[str, int] = defaultdict(int)
    received: dict[str, int] = defaultdict(int)
    for (source, target), size in loads.items():
        if machine[source] != machine[target]:
            sent[source] += size
            received[target] += size
    rows = [
        Busy(
            host=host.name,
            tasks=tasks[host.name],
            sent=format_bytes(sent[host.name]),
            received=format_bytes(received[host.name]),
            sent_s=8 * sent[host.name] / host.egress_bps if host.egress_bps else None,
            received_s=8 * received[host.name] / host.ingress_bps if host.ingress_bps else None,
        )
        for host in network.hosts
        if host.name in tasks
    ]
    return sorted(rows, key=lambda row: -max(row.sent_s or 0.0, row.received_s or 0.0))


def _wedge(start: tuple[float, float], end: tuple[float, float], width: float) -> str:
    """Return a flow's outline as an SVG path, bent so that the opposite flow runs next to it."""
    (x, y), (u, v) = start, end
    length = hypot(u - x, v - y) or 1.0
    bend_x, bend_y = 0.3 * (x + u) / 2 - 0.12 * (v - y), 0.3 * (y + v) / 2 + 0.12 * (u - x)
    wide_x, wide_y = -(v - y) / length * width / 2, (u - x) / length * width / 2
    return (
        f"M{x + wide_x:.1f} {y + wide_y:.1f}Q{bend_x + wide_x / 2:.1f} {bend_y + wide_y / 2:.1f} {u:.1f} {v:.1f}"
        f"Q{bend_x - wide_x / 2:.1f} {bend_y - wide_y / 2:.1f} {x - wide_x:.1f} {y - wide_y:.1f}Z"
    )
