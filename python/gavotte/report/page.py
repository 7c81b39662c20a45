"""Write the report's HTML page: numbers first, pictures below, everything inline."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.files.reading import write_text
from gavotte.formats.history import History, Ints
from gavotte.formats.network import Group, Host, Network
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.names import known_as, meant
from gavotte.formats.parts.rates import common_unit, format_bytes, format_in
from gavotte.formats.parts.times import utc
from gavotte.formats.placement import Placement
from gavotte.report.grid import CLEAR, Grid, Layer, grid, layer_values
from gavotte.report.layout import layout
from gavotte.report.traffic import SUNSET, Busy, Ring, busy, host_bytes, ring
from gavotte.report.trust import SOUND, WORDS, aligned, over_time, standing
from gavotte.terms.labels import shortened
from gavotte.terms.limits import Limit, LinkRow, limits_of, link_rows
from gavotte.terms.norm import TOLERANCE
from gavotte.terms.standouts import standouts
from gavotte.terms.unfolding import unfold

Bools = npt.NDArray[np.bool_]

TASKS = 512
"""Most tasks of an application whose traffic is drawn."""
DRAWN = 1000
"""Most hosts whose pairs are drawn. Of more hosts, those with tasks are drawn, and others evenly chosen."""
ROWS = 20
"""Rows of a table that are shown; more are folded away."""


@dataclass(frozen=True)
class Outcome:
    """One placement and, if it was run or simulated, its completion times.

    Attributes:
        placement: the placement, with its predicted completion time.
        measured_s: completion time of the run, None = not run.
        simulated_s: completion time in the max-min fluid model, None = not simulated.
    """

    placement: Placement
    measured_s: float | None = None
    simulated_s: float | None = None


@dataclass(frozen=True)
class _Section:
    """The part of the page about one placement: its traffic as a ring, and how long each host is busy."""

    outcome: Outcome
    ring: Ring
    busy: list[Busy]


@dataclass(frozen=True)
class _Ends:
    """A row about a host or a group: the most that it sends and receives."""

    of: Host | Group
    out: Limit
    into: Limit

    @property
    def informative(self) -> bool:
        """Whether any of the two limits is known."""
        return bool(self.out.rate_bps or self.into.rate_bps)


@dataclass(frozen=True)
class _Tables:
    """The rows of the tables about rates, in one unit for the whole page. Rows that say nothing are only counted.

    Attributes:
        unit: the unit of all rates.
        scale: how many bit/s it is.
        hosts: hosts with a known limit.
        silent_hosts: number of the other hosts.
        groups: groups with a known limit.
        silent_groups: number of the other groups.
        links: what experiments show about links, limits first.
        untested: number of the other links by the reason why nothing is known of them.
    """

    unit: str
    scale: float
    hosts: list[_Ends]
    silent_hosts: int
    groups: list[_Ends]
    silent_groups: int
    links: list[LinkRow]
    untested: dict[str, int]

    def rate(self, rate_bps: float | None) -> str:
        """Return a rate in the page's unit, without it."""
        return format_in(rate_bps, self.scale) if rate_bps else "-"

    def limit(self, limit: Limit) -> str:
        """Return a limit; one that no experiment found is at least the highest rate that was seen."""
        return (
            f"at least {self.rate(limit.rate_bps)}"
            if limit.rate_bps and not limit.certain
            else self.rate(limit.rate_bps)
        )


VERDICTS = {
    "hose": "the host's own limit",
    "machine": "the machine's limit",
    "tor": "the rack's limit",
    "aggregate": "a limit above racks",
    "open": "was never full",
    "unknown": "not known",
}
"""Words for the verdicts of a Network."""


def report(
    path: str | Path,
    network: Network,
    *,
    history: History | None = None,
    apps: Sequence[App] = (),
    outcomes: Sequence[Outcome] = (),
    title: str = "",
    facts: Mapping[str, str] | None = None,
    made_s: float | None = None,
) -> None:
    """Write one self-contained HTML page about a Network and placements. A failed write leaves no partial file.

    Args:
        path: the HTML file.
        network: rates, latencies and caps of the hosts.
        history: the measurements behind `network`. They add proofs of single pairs, and how snapshots differed.
        apps: the placed applications; without `outcomes`, the traffic between their tasks is shown.
        outcomes: placements of `apps` to compare.
        title: heading of the page; empty = the number of hosts.
        facts: label to value, shown on top.
        made_s: Unix time for the page's date; None = now.

    Raises:
        GavotteError: when the History lacks a host of the Network, a Placement uses a host that is not in it, or the
            file cannot be written.
    """
    write_text(
        path,
        environment()
        .get_template("page.html.jinja")
        .render(
            contents(network, history=history, apps=apps, outcomes=outcomes, title=title, facts=facts, made_s=made_s)
        ),
    )


def contents(
    network: Network,
    *,
    history: History | None = None,
    apps: Sequence[App] = (),
    outcomes: Sequence[Outcome] = (),
    title: str = "",
    facts: Mapping[str, str] | None = None,
    made_s: float | None = None,
) -> dict[str, object]:
    """Return what `contents.html.jinja` shows, the page without its head. Arguments and errors: see `report`."""
    part = _drawn(network, outcomes)
    tables = _tables(network, part)
    past = None if history is None else aligned(history, part)
    scale_s = max((o.placement.completion_s for o in outcomes), default=0.0) or 1e-9
    sections = []
    for outcome in outcomes:
        named, placement = unfold([a for a in apps if a.name in outcome.placement.apps], outcome.placement)
        _check(placement, network)
        loads = host_bytes(placement.in_order(named), placement)
        picture = ring(network, placement, loads, scale_s)
        sections.append(_Section(outcome, picture, busy(network, placement, loads)))
    word = standing(part, past)
    doubtful = ~np.isin(word, SOUND) & ~np.eye(len(part.hosts), dtype=bool)
    unknown = WORDS.index("not known")
    return {
        "title": title or f"Network of {counted(len(network.hosts), 'host')}",
        "findings": standouts(network),
        "facts": _facts(network, part, past, apps, int(doubtful.sum()), tables) | dict(facts or {}),
        "made": utc(time.time() if made_s is None else made_s),
        "version": _core.version(),
        "network": network,
        "short": dict(zip(network.names, shortened(network.names), strict=True)),
        "tables": tables,
        "verdicts": VERDICTS,
        "rates": _rates(part, past, word, doubtful & (word != unknown), tables) if network.rate_bps else None,
        "layout": layout(part, shortened(part.names)) if network.rate_bps else None,
        "snapshots": [] if past is None else over_time(part, past),
        "traffic": [] if outcomes else [(app, traffic_grid(app)) for app in apps],
        "sections": sections,
        "scale_s": scale_s,
        "longest_s": max(
            [o.measured_s or 0.0 for o in outcomes] + [o.simulated_s or 0.0 for o in outcomes] + [scale_s]
        ),
        "sunset": SUNSET,
        "rows": ROWS,
        "counted": counted,
        "tolerance": TOLERANCE,
        "pair_page": "",
    }


def environment(*folders: Path) -> jinja2.Environment:
    """Return the templates of this room, and those of further folders, which come first."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _check(placement: Placement, network: Network) -> None:
    names = set(network.names)
    for task, host in placement.assignment.items():
        if known_as(host, names) not in names:
            raise GavotteError(
                f"task `{task}` is placed on `{host}`, which is not a host of the network",
                hint=meant(host, network.names),
            )


def _drawn(network: Network, outcomes: Sequence[Outcome]) -> Network:
    """Return the Network of at most `DRAWN` hosts: those with tasks, then others evenly chosen. Their order stays."""
    size = len(network.hosts)
    if size <= DRAWN:
        return network
    used = {host for outcome in outcomes for host in outcome.placement.assignment.values()}
    kept = [place for place, name in enumerate(network.names) if name in used][:DRAWN]
    others = sorted(set(range(size)) - set(kept))
    evenly = np.linspace(0, len(others) - 1, DRAWN - len(kept)).round().astype(int).tolist()
    return network.of_hosts(sorted({*kept, *(others[at] for at in evenly)}))


def _tables(network: Network, part: Network) -> _Tables:
    """Return the rows of the tables about rates: those that say something first, and in one unit."""
    limits, links = limits_of(network), link_rows(network)

    def ends(items: Sequence[Host | Group]) -> list[_Ends]:
        return [_Ends(each, limits[f"out of {each.name}"], limits[f"into {each.name}"]) for each in items]

    hosts, groups = ends(part.hosts), ends(network.groups)
    pairs_bps = [rate for row in part.rate_bps for rate in row if rate]
    shown_bps = [limit.rate_bps or 0.0 for each in (*hosts, *groups) for limit in (each.out, each.into)]
    unit, scale = common_unit([*pairs_bps, *shown_bps, *(row.least_bps or 0.0 for row in links)])
    return _Tables(
        unit=unit,
        scale=scale,
        hosts=[each for each in hosts if each.informative],
        silent_hosts=sum(not each.informative for each in hosts),
        groups=[each for each in groups if each.informative],
        silent_groups=sum(not each.informative for each in groups),
        links=[row for row in links if row.informative],
        untested=dict(Counter(row.reason for row in links if not row.informative).most_common()),
    )


def _facts(
    network: Network, part: Network, history: History | None, apps: Sequence[App], doubtful: int, tables: _Tables
) -> dict[str, str]:
    size, drawn = len(network.hosts), len(part.hosts)
    rates = part.to_numpy()
    known = rates[np.isfinite(rates)]
    facts = {"hosts": f"{size} on {len({host.machine or host.name for host in network.hosts})} machines"}
    if drawn < size:
        facts["sample"] = f"{drawn} of the {size} hosts are shown, those with tasks and others evenly chosen"
    if network.rate_bps:
        facts["pairs"] = f"{known.size} of {drawn * (drawn - 1)} known, {doubtful} doubtful"
        facts["pairs"] += " among the hosts shown" if drawn < size else ""
    else:
        facts["pairs"] = "none has a rate of its own: what hosts and groups may send and receive is all that limits"
    if known.size:
        low, middle, high = (tables.rate(float(rate)) for rate in np.quantile(known, (0.1, 0.5, 0.9)))
        facts["rates"] = (
            f"{middle} {tables.unit} in the median, a tenth below {low}, a tenth above {high} (TCP goodput)"
        )
    facts["shared"] = {
        "hose": "what a host sends, and what it receives",
        "pipe": "nothing: each pair has a path of its own",
        "groups": "links of hosts, machines and racks",
    }[network.sharing]
    if history is not None:
        first, last = utc(float(history.time_s[0])), utc(float(history.time_s[-1]))
        facts["measured"] = (
            f"{history.snapshots} snapshot{'s' * (history.snapshots != 1)}, {first}"
            + (f" to {last}" if last != first else "")
            + (f", by {history.method}" if history.method else "")
        )
    for app in apps:
        facts[f"application {app.name}"] = f"{counted(len(app.task), 'task')}, {format_bytes(app.total_bytes)}"
    return facts


def _rates(network: Network, history: History | None, word: Ints, doubtful: Bools, tables: _Tables) -> Grid:
    rates = network.to_numpy()
    low = network.to_numpy("rate_low_bps")
    unit, scale = tables.unit, tables.scale
    layers = [
        Layer("rate", layer_values(rates / scale), unit=unit),
        Layer("95 % interval", layer_values(low / scale), layer_values(rates**2 / low / scale), unit),
        Layer("latency", layer_values(1e3 * network.to_numpy("latency_s")), unit="ms"),
        Layer("", word.ravel().tolist(), words=WORDS),
    ]
    if history is not None:
        layers.append(Layer("snapshots", np.isfinite(history.beta_Bps).sum(axis=0).ravel().tolist()))
    return grid(network.names, rates / scale, unit, layers=layers, doubtful=doubtful)


def traffic_grid(app: App) -> Grid | None:
    """Draw the bytes between each pair of tasks. Return None if there are more than `TASKS` tasks."""
    if len(app.task) > TASKS:
        return None
    index = {task.name: i for i, task in enumerate(app.task)}
    sizes = np.full((len(index), len(index)), np.nan)
    for transfer in app.transfer:
        if transfer.bytes:
            i, j = index[transfer.source], index[transfer.target]
            sizes[i, j] = np.nansum([sizes[i, j], transfer.bytes])
    most = float(np.nanmax(sizes)) if np.isfinite(sizes).any() else 1.0
    unit, scale = next(((u, s) for u, s in (("B", 1.0), ("kB", 1e3), ("MB", 1e6)) if most < 1e5 * s), ("GB", 1e9))
    layers = [Layer("bytes", layer_values(sizes / scale), unit=unit)]
    return grid([task.name for task in app.task], sizes / scale, unit, layers=layers, empty=CLEAR)
