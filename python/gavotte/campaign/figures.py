"""Draw OSMeF's figures for a campaign: Fig. 2 and Fig. 3 of the paper, and its authors' plots of fairness and CPU."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gavotte.campaign.comparing import value_of
from gavotte.campaign.states import accounts
from gavotte.extras import needs
from gavotte.formats.record import Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Series = dict[str, dict[float, list[float]]]
"""Name of a line to its points: x to the measured values at x, in MB/s."""

Bars = dict[str, tuple[list[float], list[float]]]
"""Name of a pair of bars to the receivers' and the senders' values, in percent of a core."""

MARKS = "o*^sDvPX<>"
MEGABYTE_BITS = 8e6


def fig2(samples: Sequence[Sample], label: str = "") -> Series:
    """Return the series of Fig. 2: loopback capacity of all connections together, by their number.

    Each flavour and engine has a line. A label, if given, is added to each line's name.
    """
    series: Series = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        if is_loopback(sample):
            what = [sample.flavour or "no limit", "" if sample.engine in ("own", "") else sample.engine, label]
            series[", ".join(filter(None, what))][sample.connections].append(sample.value / MEGABYTE_BITS)
    return {name: dict(sorted(points.items())) for name, points in sorted(series.items())}


def fig3(samples: Sequence[Sample], label: str = "") -> Series:
    """Return the series of Fig. 3: capacity of each connection, by the distance of its ends in edges.

    Each number of connections has a line. Only TCP samples of a single pair without loopback, flavour, MTU and
    tunnel, taken by agents or an unnamed engine, count. A label, if given, is added to each line's name.
    """
    series: Series = defaultdict(lambda: defaultdict(list))
    for sample in sorted(samples, key=lambda each: each.connections):
        distance, rate = value_of(sample, "distance"), value_of(sample, "connection_bps")
        single = "," not in sample.source + sample.target
        usual = not {"direction", "protocol", "mtu_bytes", "path"} & sample.metadata.keys()
        alone = usual and not is_loopback(sample) and single and not sample.flavour and sample.engine in ("own", "")
        if alone and distance is not None and rate is not None and "gvx0" not in _links(sample):
            name = f"p = {sample.connections}" + (f", {label}" if label else "")
            series[name][distance].append(rate / MEGABYTE_BITS)
    return {name: dict(sorted(points.items())) for name, points in series.items()}


def jain_by_connections(samples: Sequence[Sample], label: str = "") -> Series:
    """Return the series of the authors' plots of fairness: Jain's index by the number of connections.

    Each scenario, flavour and engine that was measured with two or more numbers of connections has a line.
    """
    series: Series = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        if (index := value_of(sample, "jain")) is not None:
            series[_named(sample, label)][sample.connections].append(index)
    lines = {name: dict(sorted(points.items())) for name, points in sorted(series.items())}
    return {name: points for name, points in lines.items() if len(points) > 1}


def cpu_by_scenario(samples: Sequence[Sample], label: str = "") -> Bars:
    """Return the bars of the authors' histogram: processor time of one connection's receiver and sender, in percent.

    Each scenario, flavour and engine with samples of a single connection has a pair of bars.
    """
    bars: Bars = defaultdict(lambda: ([], []))
    for sample in samples:
        if sample.connections == 1:
            for side, values in zip(("receiver", "sender"), bars[_named(sample, label)], strict=True):
                if (cores := value_of(sample, f"{side}_cpu_connection")) is not None:
                    values.append(100 * cores)
    return {name: sides for name, sides in bars.items() if any(sides)}


def _named(sample: Sample, label: str) -> str:
    what = [sample.scenario, sample.flavour, "" if sample.engine in ("own", "") else sample.engine, label]
    return ", ".join(filter(None, what))


def is_loopback(sample: Sample) -> bool:
    """Report whether a sample's traffic stayed on one host."""
    return sample.source == sample.target and "," not in sample.source


def draw(series: Series, *, title: str, x: str, y: str, log: bool = False) -> str:
    """Return a plot as SVG text: means with their range. The same numbers give the same text."""
    with needs("plots"):
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    with rc_context({"svg.hashsalt": "gavotte", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        FigureCanvasSVG(figure)
        axes: Axes = figure.add_subplot()
        for number, (name, points) in enumerate(series.items()):
            means = [float(np.mean(values)) for values in points.values()]
            low = [mean - min(values) for mean, values in zip(means, points.values(), strict=True)]
            high = [max(values) - mean for mean, values in zip(means, points.values(), strict=True)]
            axes.errorbar(
                list(points),
                means,
                yerr=[low, high],
                marker=MARKS[number % len(MARKS)],
                capsize=2,
                linewidth=1,
                label=name,
            )
        axes.set(title=title, xlabel=x, ylabel=y)
        if log:
            axes.set_yscale("log")
            axes.set_xticks(sorted({point for points in series.values() for point in points}))
        else:
            axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=8)
        return _svg(figure)


def draw_bars(bars: Bars, *, title: str, y: str) -> str:
    """Return a plot of pairs of bars as SVG text: means with their standard deviation."""
    with needs("plots"):
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    with rc_context({"svg.hashsalt": "gavotte", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(max(6.4, 0.5 * len(bars) + 2), 3.8), layout="constrained")
        FigureCanvasSVG(figure)
        axes: Axes = figure.add_subplot()
        for side, (name, colour) in enumerate((("Receiver", "tab:red"), ("Transmitter", "tab:olive"))):
            values = [each[side] or [0.0] for each in bars.values()]
            places = [place + 0.35 * side for place in range(len(bars))]
            means, spread = [float(np.mean(each)) for each in values], [float(np.std(each)) for each in values]
            axes.bar(places, means, 0.35, yerr=spread, color=colour, capsize=2, label=name)
        axes.set(title=title, ylabel=y)
        axes.set_xticks([place + 0.175 for place in range(len(bars))], list(bars), rotation=30, ha="right")
        axes.grid(visible=True, axis="y", alpha=0.3)
        axes.legend(fontsize=8)
        return _svg(figure)


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _links(sample: Sample) -> set[str]:
    before, _ = accounts(sample.metadata)
    return {name for state in before.values() for name in state.get("interfaces", {})}
