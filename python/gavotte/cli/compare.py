"""`gavotte compare`: show what has changed between two measurements, and whether to place again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json, Seed, StoreUrl
from gavotte.cli.output import emit_json, emit_table, note, warn
from gavotte.cli.sources import read_measured
from gavotte.cli.verdicts import leave, share
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_rate

if TYPE_CHECKING:
    from gavotte.compare import NetworkComparison, PathDifference
    from gavotte.formats.history import History
    from gavotte.formats.network import Network
    from gavotte.watch import Reassessment

SHOWN = 20
"""Most paths in the table, unless all are asked for."""

MOST_SIGNIFICANCE = 0.5

_SIDE = "A History, a Network, or a series of the store: NAME, NAME@2026-11-20, or NAME@FROM..TO."


@dataclass(frozen=True)
class ToleranceOptions:
    """What does not matter, and how often a false alarm may be."""

    margin: float = option(
        "Largest difference of a rate that does not matter. By default 10%.",
        "PERCENT",
        default=0.10,
        parser=share,
        show_default=False,
    )
    latency_margin: float = option(
        "Largest difference of a latency that does not matter. By default 25%; less than 0.1 ms never matters.",
        "PERCENT",
        default=0.25,
        parser=share,
        show_default=False,
    )
    significance: float = option(
        "Probability of a false alarm over all paths together, at most 50%. By default 5%.",
        "PERCENT",
        default=0.05,
        parser=share,
        show_default=False,
    )

    def __post_init__(self) -> None:
        """Check the significance."""
        if not 0 < self.significance <= MOST_SIGNIFICANCE:
            raise typer.BadParameter(f"--significance: use more than 0%, and at most {100 * MOST_SIGNIFICANCE:g}%")


@dataclass(frozen=True)
class RunningOptions:
    """The applications that may have to be placed again."""

    placement: Path | None = option(
        "Also predict the times of this Placement before and now, and whether another one pays.", "P.placement.json"
    )
    app: list[Path] | None = option("An App of --placement. May be repeated.", "A.app.toml")


@declared
def compare(
    before: Annotated[str, typer.Argument(help=_SIDE, metavar="BEFORE")],
    now: Annotated[str, typer.Argument(help="The same, measured later.", metavar="NOW")],
    *,
    tolerance: ToleranceOptions,
    placed: RunningOptions,
    store: StoreUrl = None,
    all_: bool = option("Show every path, not only those that differ or are undecided.", None, "--all", default=False),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Show what has changed in a network. Exits with 0 if alike, 3 if different, 4 if it cannot tell."""
    from gavotte.compare import compare as judge

    if bool(placed.app) != (placed.placement is not None):
        raise typer.BadParameter("--app and --placement need each other")
    sides = [read_measured(text, store) for text in (before, now)]
    result = judge(
        *sides,
        margin=tolerance.margin,
        latency_margin=tolerance.latency_margin,
        significance=tolerance.significance,
    )
    again = None if placed.placement is None else _reassessed(sides, placed.placement, placed.app or [], seed)
    warn(result.warnings)
    if as_json:
        emit_json(_document(result, again))
    else:
        for line in (*result.findings, *([] if again is None else [_advice(*again)])):
            typer.echo(line)
        _emit_paths(result, every=all_)
    note(_sentence(result))
    if result.verdict == "different" and again is None and not as_json:
        note("whether placing again pays: use --placement and --app")
    leave(result.verdict)


def _reassessed(
    sides: Sequence[History | Network], path: Path, apps: Sequence[Path], seed: int
) -> tuple[Reassessment, bool]:
    """Return the times of a running placement before and now, and whether its tasks should move."""
    from gavotte.formats.app import read_app
    from gavotte.formats.history import History
    from gavotte.formats.placement import read_placement
    from gavotte.model import find_constant, model
    from gavotte.place import Running
    from gavotte.watch import reassess

    networks = [
        model(side, constant=find_constant(side, seed=seed, fill=True)) if isinstance(side, History) else side
        for side in sides
    ]
    placement = read_placement(path).spelled_as(networks[0].names)
    placement.check_stays("a comparison")
    known = {name.lower() for name in networks[1].names}
    gone = [name for name in networks[0].names if name.lower() not in known]
    running = Running([read_app(each) for each in apps], placement)
    result = reassess(networks[0], networks[1], running, gone=gone, seed=seed)
    return result, result.assignment is None or result.assignment != placement.assignment


def _advice(result: Reassessment, again: bool) -> str:
    """Return whether to place again, with the predicted times."""
    return f"{'place again' if again else 'keep the placement'}: {result.text}"


def _document(result: NetworkComparison, again: tuple[Reassessment, bool] | None) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {
        "verdict": result.verdict,
        "findings": list(result.findings),
        "counts": result.counts,
        "margin": result.margin,
        "latency_margin": result.latency_margin,
        "significance": result.significance,
        "hosts": list(result.hosts),
        "vanished": list(result.vanished),
        "appeared": list(result.appeared),
        "snapshots": list(result.snapshots),
        "warnings": result.warnings,
        "paths": result.to_records(),
        "mtus": [vars(each) for each in result.mtus],
        "placement": None if again is None else {"again": again[1], **again[0].document},
    }


def _emit_paths(result: NetworkComparison, *, every: bool) -> None:
    """Print the paths that differ, then the undecided ones; the largest differences first."""
    shown, total = (list(result.paths), 0) if every else result.worst(SHOWN)
    if not shown:
        return
    if result.findings:
        typer.echo()
    columns = ["from", "to", "of", "before", "now", "difference", "95 % interval", "verdict", "could be seen", "needs"]
    emit_table(columns, [_row(each) for each in shown], words=("to", "of", "95 % interval", "verdict"))
    if total > len(shown):
        note(f"showing {len(shown)} of {total} rows; use --all or --json for more")


def _row(each: PathDifference) -> list[str]:
    values = [_value(each, value) for value in (each.before, each.now)]
    bounded = each.low is not None and each.high is not None
    interval = f"{_percent(each.low)} to {_percent(each.high)}" if bounded else "-"
    verdict = f"{each.verdict}: {each.reason}" if each.reason else each.verdict
    seen = "-" if each.detectable is None else f"{100 * each.detectable:.0f} %"
    needs = "-" if each.snapshots is None else counted(each.snapshots, "snapshot")
    what = "rate" if each.quantity == "rate_bps" else "latency"
    return [each.source, each.target, what, *values, _percent(each.relative), interval, verdict, seen, needs]


def _value(each: PathDifference, value: float | None) -> str:
    if value is None:
        return "-"
    return format_rate(value) if each.quantity == "rate_bps" else f"{1e3 * value:.3g} ms"


def _percent(relative: float | None) -> str:
    return "-" if relative is None else f"{100 * relative:+.0f} %"


def _sentence(result: NetworkComparison) -> str:
    """Return the verdict, the number of paths for each, and what would decide the others."""
    import numpy as np

    from gavotte.terms.equivalence import CANNOT_TELL

    counts, within = result.counts, f"{100 * result.margin:g} %"
    total = counted(len(result.pairs), "path")
    if result.verdict == "alike":
        return f"alike: the rates of {total}, each within {within}"
    if result.verdict == "different":
        if not counts["different"]:
            rest = f"; {counts['cannot tell']} undecided" if counts["cannot tell"] else ""
            alike = f"all {total}" if not rest else f"{counts['alike']} of {total}"
            return f"different: the rates of {alike} are alike{rest}, but not all else is"
        rest = f"{counts['alike']} are alike, {counts['cannot tell']} undecided"
        return f"different: the rates of {counts['different']} of {total} by more than {within}; {rest}"
    judged = result.rate.judgement
    open_ = judged.verdict == CANNOT_TELL
    seen, needs = (each[open_ & np.isfinite(each)] for each in (judged.detectable, judged.repetitions))
    least = f"; a difference of {100 * seen.max():.0f} % could have been seen on each" if seen.size else ""
    remedy = f"; about {counted(int(needs.max()), 'snapshot')} each would decide" if needs.size else "; measure more"
    return f"cannot tell: the rates of {int(open_.sum())} of {total} with a margin of {within}{least}{remedy}"
