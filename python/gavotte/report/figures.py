"""The pictures of the report, each as an SVG string."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement

# Perceptually even and readable by the colour-blind.
RATE_COLOURS = "viridis"
BUSY_COLOURS = "inferno_r"


def heat_map(network: Network) -> str:
    """Rates between hosts, Mbit/s of TCP goodput; row = source."""
    names = network.names
    rates = np.array([[np.nan if r is None else r / 1e6 for r in row] for row in network.rate_bps])
    size = len(names)
    side = min(4.0 + 0.42 * size, 14.0)
    figure = Figure(figsize=(side + 1.2, side))
    axes = figure.subplots()
    # Logarithmic: pairs inside one machine are often ten times faster than all others.
    shown = axes.imshow(rates, cmap=RATE_COLOURS, norm=LogNorm())
    figure.colorbar(shown, ax=axes, label="Mbit/s (TCP goodput)", shrink=0.85)
    step = max(1, size // 32)
    axes.set_xticks(range(0, size, step), names[::step], rotation=90)
    axes.set_yticks(range(0, size, step), names[::step])
    axes.set_xlabel("to")
    axes.set_ylabel("from")
    if size <= 20:
        middle = np.sqrt(np.nanmax(rates) * np.nanmin(rates)) if np.isfinite(rates).any() else 0
        for i, j in np.argwhere(np.isfinite(rates)):
            colour = "white" if rates[i, j] < middle else "black"
            axes.text(j, i, f"{rates[i, j]:.0f}", ha="center", va="center", fontsize=7, color=colour)
    return _svg(figure)


def placement_picture(network: Network, apps: Sequence[App], placement: Placement, *, scale_s: float) -> str:
    """Where the tasks went, what flows between hosts, and how long each host's links are busy.

    Args:
        network: hosts and rates.
        apps: the applications placed.
        placement: task to host.
        scale_s: right end of the time axis, the same for all pictures of a report.
    """
    loads = host_bytes(apps, placement)
    names = network.names
    figure = Figure(figsize=(11, 5))
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1])
    _draw_hosts(left, network, placement, loads, scale_s)
    sent_s, received_s = _busy_s(network, loads)
    where = np.arange(len(names))
    right.barh(where - 0.2, sent_s, height=0.36, label="sending", color="#3b528b")
    right.barh(where + 0.2, received_s, height=0.36, label="receiving", color="#5ec962")
    right.set_yticks(where, names, fontsize=8)
    right.invert_yaxis()
    right.set_xlim(0, scale_s * 1.02)
    right.set_xlabel("seconds at the host's cap")
    right.axvline(placement.completion_s, color="#d1495b", linewidth=1.2, label="predicted completion")
    right.legend(fontsize=8, loc="lower right", frameon=False)
    for side in ("top", "right"):
        right.spines[side].set_visible(False)
    return _svg(figure)


def host_bytes(apps: Sequence[App], placement: Placement) -> dict[tuple[str, str], int]:
    """Bytes between each pair of different hosts under a placement."""
    loads: dict[tuple[str, str], int] = defaultdict(int)
    for app in apps:
        prefix = f"{app.name}/" if len(placement.apps) > 1 else ""
        for transfer in app.transfer:
            source = placement.assignment[prefix + transfer.source]
            target = placement.assignment[prefix + transfer.target]
            if source != target:
                loads[source, target] += transfer.bytes
    return dict(loads)


def _busy_s(network: Network, loads: Mapping[tuple[str, str], int]) -> tuple[list[float], list[float]]:
    machine = {h.name: h.machine or h.name for h in network.hosts}
    sent: dict[str, int] = defaultdict(int)
    received: dict[str, int] = defaultdict(int)
    for (source, target), size in loads.items():
        if machine[source] != machine[target]:
            sent[source] += size
            received[target] += size
    return (
        [8 * sent[h.name] / h.egress_bps if h.egress_bps else 0.0 for h in network.hosts],
        [8 * received[h.name] / h.ingress_bps if h.ingress_bps else 0.0 for h in network.hosts],
    )


def _draw_hosts(
    axes: Axes, network: Network, placement: Placement, loads: Mapping[tuple[str, str], int], scale_s: float
) -> None:
    names = network.names
    angle = {name: 2 * np.pi * i / len(names) for i, name in enumerate(names)}
    at = {name: (float(np.sin(a)), float(np.cos(a))) for name, a in angle.items()}
    index = {name: i for i, name in enumerate(names)}
    colours = Normalize(0, max(scale_s, 1e-9))
    palette = colormaps[BUSY_COLOURS]
    largest = max(loads.values(), default=1)
    for (source, target), size in sorted(loads.items(), key=lambda item: item[1]):
        rate = network.rate_bps[index[source]][index[target]]
        busy_s = 8 * size / rate if rate else 0.0
        axes.add_patch(
            FancyArrowPatch(
                at[source],
                at[target],
                connectionstyle="arc3,rad=0.12",
                arrowstyle="-|>",
                mutation_scale=9,
                shrinkA=15,
                shrinkB=15,
                linewidth=0.3 + 3.2 * size / largest,
                color=palette(colours(busy_s)),
                alpha=0.75,
            )
        )
    tasks: dict[str, list[str]] = defaultdict(list)
    for task, host in placement.assignment.items():
        tasks[host].append(task)
    for name in names:
        x, y = at[name]
        axes.add_patch(Circle((x, y), 0.13, facecolor="#f4f1ea" if tasks[name] else "white", edgecolor="#444444"))
        axes.text(x, y, name, ha="center", va="center", fontsize=8)
        listed = sorted(tasks[name], key=lambda task: (len(task), task))
        shown = [listed[i : i + 2] for i in range(0, min(len(listed), 8), 2)]
        text = "\n".join(" ".join(pair) for pair in shown) + ("\n..." if len(listed) > 8 else "")
        axes.text(1.38 * x, 1.30 * y, text, ha="center", va="center", fontsize=6.5, color="#205072")
    axes.set_xlim(-1.75, 1.75)
    axes.set_ylim(-1.6, 1.6)
    axes.set_aspect("equal")
    axes.axis("off")


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    # No date: the same input gives the same bytes.
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": "gavotte"})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
