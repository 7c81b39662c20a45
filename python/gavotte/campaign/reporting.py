"""Write a report of a campaign as a page: tables, OSMeF's figures and disturbances.

The page can also show a second campaign and the comparison of both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from gavotte import _core
from gavotte.campaign.comparing import Comparison, Difference, by_cell, value_of
from gavotte.campaign.conditions import unclean
from gavotte.campaign.figures import cpu_by_scenario, draw, draw_bars, fig2, fig3, jain_by_connections
from gavotte.campaign.states import accounts
from gavotte.campaign.statistics import mean_interval, variation
from gavotte.errors import GavotteError
from gavotte.formats.files.reading import write_text
from gavotte.formats.parts.rates import format_bytes, format_rate
from gavotte.formats.record import Sample
from gavotte.terms.equivalence import MOST_REPETITIONS

LATEST_S = 2.5e11
"""Latest Unix time shown in a date, so that years have at most four digits."""

COLUMNS = ("jain", "distance", "hops", "retransmits", "rtt_idle_s", "rtt_loaded_s")
CPU = (
    *("sender_cpu", "receiver_cpu", "sender_process_cpu", "receiver_process_cpu", "sender_softirq", "sender_steal"),
    *("sender_cpu_connection", "receiver_cpu_connection"),
)
EXTRAS = {
    "forward_bps": "forward",
    "reverse_bps": "reverse",
    "sustained_bps": "after credit",
    "credit_bytes": "credit",
    "segment_bytes": "segment bytes",
    "offered_bps": "offered",
    "loss": "loss",
    "late": "late",
    "jitter_s": "jitter ms",
    "delay_s": "one way ms",
    "high_delay_s": "one way 95 % ms",
}
"""Columns that a table has only if a sample has such a value, by metric."""

TITLES = {
    "fig2": "Loopback capacity (the paper's Fig. 2)",
    "fig3": "Capacity by distance (the paper's Fig. 3)",
    "jain": "Fairness by connections (the authors' plot)",
    "cpu": "Processor time of one connection (the authors' histogram)",
}


@dataclass(frozen=True)
class Section:
    """Part of a report about one campaign, as text.

    Attributes:
        name: the campaign's name.
        facts: label to value.
        rows: table with a row for each cell and engine; its columns are HEADINGS.
        warnings: lines about conditions that make samples doubtful.
    """

    name: str
    facts: dict[str, str]
    rows: list[list[str]]
    warnings: list[str]


HEADINGS = [
    "scenario",
    "source",
    "target",
    "p",
    "flavour",
    "engine",
    "n",
    "capacity",
    "95 % interval",
    "variation",
    "Jain",
    "distance",
    "hops",
    "retransmits",
    "RTT idle ms",
    "RTT loaded ms",
    "CPU sender",
    "CPU receiver",
    "agent sender",
    "agent receiver",
    "softirq",
    "steal",
    "CPU of a connection, sender",
    "CPU of a connection, receiver",
]
WORDS = 6
"""Number of leading columns that hold text."""


def report(
    path: str | Path,
    samples: Sequence[Sample],
    other: Sequence[Sample] = (),
    *,
    comparison: Comparison | None = None,
    made_s: float | None = None,
) -> list[Path]:
    """Write a page: Markdown with its plots in files if the name ends in .md, else one HTML file.

    Args:
        path: path of the page.
        samples: the campaign's samples.
        other: samples of a second campaign to show with it.
        comparison: comparison of the two campaigns.
        made_s: Unix time for the page's date; None = now.

    Returns:
        paths of the written files, the page first.

    Raises:
        GavotteError: when there are no samples.
    """
    if not samples:
        raise GavotteError("there are no samples to report", hint="run the campaign first")
    extra = [name for name in EXTRAS if any(_shows(sample, name) for sample in (*samples, *other))]
    sections = [section(samples, extra)] + ([section(other, extra)] if other else [])
    labels = ["", ""] if not other else ["first", "second"]
    sets = [samples, other]
    loops = {name: line for which, label in zip(sets, labels, strict=True) for name, line in fig2(which, label).items()}
    ways = {name: line for which, label in zip(sets, labels, strict=True) for name, line in fig3(which, label).items()}
    named = list(zip(sets, labels, strict=True))
    fair = {name: line for which, label in named for name, line in jain_by_connections(which, label).items()}
    busy = {name: bars for which, label in named for name, bars in cpu_by_scenario(which, label).items()}
    figures = {}
    if loops:
        figures["fig2"] = draw(loops, title="Loopback BTC", x="Loopback concurrent connections", y="BTC in MB/s")
    if ways:
        figures["fig3"] = draw(
            ways, title="BTC by distance", x="Distance", y="BTC of each connection in MB/s", log=True
        )
    if fair:
        figures["jain"] = draw(fair, title="Jain's index", x="Concurrent connections", y="Jain's index")
    if busy:
        figures["cpu"] = draw_bars(busy, title="CPU usage with 1 connection", y="CPU usage in % of a core")
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time.time() if made_s is None else made_s))
    shown = {
        "sections": sections,
        "comparison": comparison,
        "differences": [] if comparison is None else difference_rows(comparison),
        "headings": [*HEADINGS, *(EXTRAS[name] for name in extra)],
        "titles": TITLES,
        "words": WORDS,
        "made": made,
        "version": _core.version(),
    }
    target = Path(path)
    if target.suffix != ".md":
        write_text(target, _template("page.html.jinja", escape=True).render(figures=figures, **shown))
        return [target]
    written = []
    names = {}
    for name, svg in figures.items():
        beside = target.with_name(f"{target.stem}.{name}.svg")
        write_text(beside, svg)
        names[name] = beside.name
        written.append(beside)
    write_text(target, _template("page.md.jinja", escape=False).render(figures=names, **shown))
    return [target, *written]


def _shows(sample: Sample, name: str) -> bool:
    """Report whether a sample has a value for an extra column."""
    if name == "segment_bytes" and "mtu_bytes" not in sample.metadata:
        return False
    return value_of(sample, name) is not None


def section(samples: Sequence[Sample], extra: Sequence[str] = ()) -> Section:
    """Return the facts, table and warnings of one campaign's samples; `extra` names metrics with further columns."""
    times = [min(max(sample.time_s, 0.0), LATEST_S) for sample in samples]
    first = samples[0]
    hosts = {host: state for sample in samples for host, state in accounts(sample.metadata)[0].items()}
    facts = {
        "samples": f"{len(samples)} of {len(by_cell(samples))} kinds",
        "taken": " to ".join(time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(t)) for t in (min(times), max(times))),
        "driver": str(first.metadata.get("driver", "unknown")),
        "seed": str(first.metadata.get("seed", "unknown")),
        "plan": str(first.metadata.get("plan", "unknown")),
        "congestion control": str(first.metadata.get("congestion", "unknown")),
        "kernels": ", ".join(sorted({str(state.get("kernel", "unknown")) for state in hosts.values()})) or "unknown",
        "clock sources": ", ".join(sorted({str(state.get("clock_source", "unknown")) for state in hosts.values()}))
        or "unknown",
        "versions": _versions([sample.metadata.get("versions") for sample in samples]),
        "versions of endpoints": _versions([state.get("versions") for state in hosts.values()]),
    }
    cells: dict[tuple[Any, ...], list[Sample]] = {}
    for sample in samples:
        cells.setdefault((*sample.cell, sample.engine), []).append(sample)
    return Section(first.campaign, facts, [_row(each, extra) for _, each in sorted(cells.items())], unclean(samples))


def _versions(states: Sequence[object]) -> str:
    """Return each distinct reported set of versions once, as one line of text."""
    sets = {", ".join(f"{key} {value}" for key, value in each.items()) for each in states if isinstance(each, dict)}
    return "; ".join(sorted(sets - {""})) or "unknown"


def difference_rows(comparison: Comparison) -> list[list[str]]:
    """Return a comparison as rows of text, one for each cell; the columns are DIFFERENCE_HEADINGS."""

    def rate(value: float | None) -> str:
        return "-" if value is None else _value(comparison.metric, value)

    return [
        [
            cell.scenario,
            cell.source,
            cell.target,
            str(cell.connections),
            cell.flavour or "-",
            f"{cell.values[0]} and {cell.values[1]}",
            rate(cell.means[0]),
            rate(cell.means[1]),
            _change(cell.relative),
            "-" if None in (cell.low, cell.high) else f"{_change(cell.low)} to {_change(cell.high)}",
            "-" if cell.detectable is None else f"{100 * cell.detectable:.1f} %",
            cell.verdict,
            needed(cell),
        ]
        for cell in comparison.cells
    ]


DIFFERENCE_HEADINGS = [
    "scenario",
    "source",
    "target",
    "p",
    "flavour",
    "samples",
    "first",
    "second",
    "difference",
    "95 % interval",
    "could be seen",
    "verdict",
    "repetitions needed",
]


def needed(cell: Difference) -> str:
    """Return the repetitions that a verdict on a cell needs, as text; `-` if there is a verdict."""
    if cell.verdict != "cannot tell":
        return "-"
    if cell.repetitions is not None:
        return str(cell.repetitions)
    return "2 or more" if min(cell.values) < 2 else f"over {MOST_REPETITIONS}"


def _change(relative: float | None) -> str:
    return "-" if relative is None else f"{100 * relative:+.1f} %"


def _row(samples: list[Sample], extra: Sequence[str] = ()) -> list[str]:
    first = samples[0]
    values = [sample.value for sample in samples]
    mean, low, high = mean_interval(values)
    spread = variation(values)
    interval = f"{format_rate(low)} to {format_rate(high)}" if math.isfinite(low) else "-"
    cells = [
        first.scenario,
        first.source,
        first.target,
        str(first.connections),
        first.flavour or "-",
        first.engine or "-",
    ]
    cells += [str(len(samples)), format_rate(mean), interval, "-" if math.isnan(spread) else f"{100 * spread:.1f} %"]
    for name in (*COLUMNS, *CPU, *extra):
        known = [value for sample in samples if (value := value_of(sample, name)) is not None]
        cells.append("-" if not known else _value(name, float(np.mean(known))))
    return cells


def _value(name: str, value: float) -> str:
    if name.endswith("_bps"):
        return format_rate(value)
    if name.endswith("_s"):
        return f"{1e3 * value:.3g}"
    if name.endswith("_bytes") and name != "segment_bytes":
        return format_bytes(value)
    if name in ("distance", "hops", "retransmits", "segment_bytes"):
        return f"{value:.4g}"
    return f"{value:.3f}"


def _template(name: str, *, escape: bool) -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=escape, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["difference_headings"] = DIFFERENCE_HEADINGS
    environment.filters["cell"] = lambda text: str(text).replace("|", "\\|")
    return environment.from_string(resources.files("gavotte.campaign").joinpath(name).read_text("utf-8"))
