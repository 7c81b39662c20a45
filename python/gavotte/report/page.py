"""The report's page: numbers first, pictures below, everything inline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import jinja2
import matplotlib as mpl

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.formats.rates import format_rate
from gavotte.formats.reading import write_text
from gavotte.report.figures import heat_map, placement_picture


@dataclass(frozen=True)
class Outcome:
    """One placement and, where it was run, what it took.

    Attributes:
        placement: with its prediction.
        measured_s: completion time of the run, None = not run.
        simulated_s: completion time in the max-min fluid model, None = not simulated.
    """

    placement: Placement
    measured_s: float | None
    simulated_s: float | None = None


def report(
    path: str | Path,
    *,
    title: str,
    network: Network,
    apps: Sequence[App],
    outcomes: Sequence[Outcome],
    facts: Mapping[str, str],
) -> None:
    """Writes the page, whole or not at all.

    Args:
        path: the HTML file.
        title: its heading.
        network: what was measured.
        apps: what was placed.
        outcomes: each placement tried.
        facts: label to value, shown on top: seed, machine, versions, sample counts.
    """
    scale_s = max((o.placement.completion_s for o in outcomes), default=1.0)
    # Readable text in the SVG, and identifiers that repeat from run to run.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gavotte", "font.family": "sans-serif"}):
        pictures = [placement_picture(network, apps, outcome.placement, scale_s=scale_s) for outcome in outcomes]
        rates = heat_map(network)
    source = resources.files("gavotte.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    page = environment.from_string(source).render(
        title=title,
        facts=dict(facts),
        outcomes=list(zip(outcomes, pictures, strict=True)),
        hosts=[
            {
                "name": host.name,
                "machine": host.machine or "",
                "cpus": f"{host.cpus:g}",
                "egress": format_rate(host.egress_bps) if host.egress_bps else "unknown",
                "ingress": format_rate(host.ingress_bps) if host.ingress_bps else "unknown",
            }
            for host in network.hosts
        ],
        heat_map=rates,
        longest_s=max([o.measured_s or 0.0 for o in outcomes] + [o.placement.completion_s for o in outcomes] + [1e-9]),
    )
    write_text(path, page)
