"""One function for each noun. Each draws on the given axes, or on those of a new figure, and returns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.app import App
from gavotte.formats.history import History
from gavotte.formats.network import Network
from gavotte.formats.parts.rates import common_unit
from gavotte.formats.placement import Placement
from gavotte.terms.labels import shortened
from gavotte.terms.unfolding import unfold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = 40
"""Most rows of a matrix whose names are written."""
BAND = (10, 90)
"""Percentiles of pairs between which a band is drawn."""
_BYTES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9))


def network(network: Network, ax: Axes | None = None) -> Axes:
    """Draw the rate of each pair, TCP goodput, row = sender.

    Args:
        network: a Network with rates of pairs.
        ax: where to draw; None = on a new figure.

    Raises:
        GavotteError: when the Network has no rates of pairs.
        UnsupportedError: without matplotlib.
    """
    rates_bps = network.to_numpy()
    if not np.isfinite(rates_bps).any():
        raise GavotteError("the Network has no rates of pairs to draw", hint="gavotte report shows its caps")
    unit, scale = common_unit(rates_bps[np.isfinite(rates_bps)])
    return _matrix(_axes(ax), network.names, rates_bps / scale, f"TCP goodput [{unit}]", ("receiver", "sender"))


def app(app: App, ax: Axes | None = None) -> Axes:
    """Draw the bytes between each pair of tasks in all phases, row = sender.

    Args:
        app: the application.
        ax: where to draw; None = on a new figure.

    Raises:
        UnsupportedError: without matplotlib.
    """
    sizes = app.to_numpy().astype(float)
    unit, scale = _byte_unit(float(sizes.max(initial=0)))
    sizes[sizes == 0] = np.nan
    names = [task.name for task in app.task]
    return _matrix(_axes(ax), names, sizes / scale, f"payload [{unit}]", ("receiver", "sender"))


def history(history: History, ax: Axes | None = None) -> Axes:
    """Draw the median rate of all pairs over time, and the band that holds eight of ten pairs.

    Args:
        history: at least one snapshot.
        ax: where to draw; None = on a new figure.

    Raises:
        UnsupportedError: without matplotlib.
    """
    rates_bps = 8 * history.beta_Bps.reshape(history.snapshots, -1)
    measured = np.isfinite(rates_bps).any(axis=1)
    unit, scale = common_unit(rates_bps[np.isfinite(rates_bps)])
    low, middle, high = np.nanpercentile(rates_bps[measured], (BAND[0], 50, BAND[1]), axis=1) / scale
    hours = (history.time_s[measured] - history.time_s[0]) / 3600
    axes = _axes(ax)
    axes.fill_between(hours, low, high, alpha=0.25, linewidth=0, label=f"{BAND[0]} to {BAND[1]} % of pairs")
    axes.plot(hours, middle, marker="o", markersize=3, label="median pair")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("hours since the first snapshot")
    axes.set_ylabel(f"TCP goodput [{unit}]")
    axes.legend()
    return axes


def placement(placement: Placement, apps: App | Sequence[App], ax: Axes | None = None) -> Axes:
    """Draw the bytes that each host sends to and receives from others under a Placement, busiest host first.

    Args:
        placement: where the tasks run.
        apps: its applications.
        ax: where to draw; None = on a new figure.

    Raises:
        GavotteError: when the applications and the placement do not belong together.
        UnsupportedError: without matplotlib.
    """
    named, plain = unfold(placement.in_order([apps] if isinstance(apps, App) else apps), placement)
    hosts = list(dict.fromkeys(plain.assignment.values()))
    at = {host: place for place, host in enumerate(hosts)}
    moved = np.zeros((2, len(hosts)))
    for one in named:
        for transfer in one.transfer:
            keys = [end if len(named) == 1 else f"{one.name}/{end}" for end in (transfer.source, transfer.target)]
            source, target = (at[plain.assignment[key]] for key in keys)
            if source != target:
                moved[0, source] += transfer.bytes
                moved[1, target] += transfer.bytes
    order = np.argsort(-moved.max(axis=0), kind="stable")
    unit, scale = _byte_unit(float(moved.max(initial=0)))
    axes, rows = _axes(ax), np.arange(len(hosts))
    axes.barh(rows - 0.2, moved[0, order] / scale, 0.4, label="sends")
    axes.barh(rows + 0.2, moved[1, order] / scale, 0.4, label="receives")
    axes.set_yticks(rows, [hosts[place] for place in order])
    axes.invert_yaxis()
    axes.set_xlabel(f"payload [{unit}]")
    axes.set_title(f"{placement.method}: predicted {placement.completion_s:.3g} s, {placement.bottleneck}", fontsize=10)
    axes.legend()
    return axes


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    with needs("plots"):
        from matplotlib import pyplot
    return pyplot.subplots(layout="constrained")[1]


def _matrix(
    axes: Axes, names: Sequence[str], values: npt.NDArray[np.float64], label: str, ends: tuple[str, str]
) -> Axes:
    image = axes.imshow(values, cmap="viridis", vmin=0)
    axes.set_xlabel(ends[0])
    axes.set_ylabel(ends[1])
    if len(names) <= LABELS:
        short = shortened(names)
        axes.set_xticks(range(len(names)), short, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), short, fontsize=8)
    axes.figure.colorbar(image, ax=axes, label=label)
    return axes


def _byte_unit(most: float) -> tuple[str, float]:
    """Return the unit in which the largest value has one to three digits, and how many bytes it is."""
    return next(((unit, scale) for unit, scale in _BYTES if most < 1e3 * scale), _BYTES[-1])
