"""`gavotte report`: show measurements and placements as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json
from gavotte.cli.output import emit_json, note
from gavotte.cli.progress import progress
from gavotte.cli.writing import to_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gavotte.formats.placement import Placement
    from gavotte.formats.record import Record


@declared
def report(
    network: Annotated[Path, typer.Option("--network", help="The Network to show.", metavar="N.network.json")],
    output: Annotated[Path, to_write("Write the page to this file.", "R.html")],
    history: Path | None = option("History from which the Network was modelled.", "H.npz"),
    apps: list[Path] | None = option("An App that was placed. May be repeated.", "A.app.toml", "--app"),
    placements: list[Path] | None = option(
        "A Placement of the Apps. May be repeated.", "P.placement.json", "--placement"
    ),
    runs: list[Path] | None = option(
        "Records that `gavotte run` wrote for these placements. May be repeated.", "R.jsonl", "--run"
    ),
    title: str = option("Heading of the page.", default=""),
    as_json: Json = False,
) -> None:
    """Show rates, shared links, placements and their measured times on one self-contained HTML page."""
    from gavotte.errors import GavotteError
    from gavotte.formats.app import read_app
    from gavotte.formats.history import read_history
    from gavotte.formats.network import read_network
    from gavotte.formats.parts.names import meant
    from gavotte.formats.placement import read_placement
    from gavotte.formats.record import read_records
    from gavotte.report import Outcome
    from gavotte.report import report as draw

    believed = read_network(network)
    past = None if history is None else read_history(history)
    loaded = [read_app(path) for path in apps or ()]
    placed = [read_placement(path) for path in placements or ()]
    records = [record for path in runs or () for record in read_records(path)]
    if placed and not loaded:
        raise GavotteError(f"{(placements or [])[0]}: its applications are missing", hint="name them with --app")
    names = set(believed.names)
    outcomes = []
    for path, placement in zip(placements or (), placed, strict=True):
        from gavotte.simulate import simulate_placement

        if strangers := sorted(set(placement.assignment.values()) - names):
            raise GavotteError(
                f"{path}: `{strangers[0]}` is not a host of {network}", hint=meant(strangers[0], believed.names)
            )
        named = [app for app in loaded if app.name in placement.apps]
        outcomes.append(
            Outcome(placement, _measured_s(placement, records), simulate_placement(believed, named, placement))
        )
    with progress("drawing"):
        draw(output, believed, history=past, apps=loaded, outcomes=outcomes, title=title)
    if as_json:
        rows = [
            {
                "method": each.placement.method,
                "predicted_s": each.placement.completion_s,
                "simulated_s": each.simulated_s,
                "measured_s": each.measured_s,
            }
            for each in outcomes
        ]
        emit_json({"report": str(output), "hosts": len(names), "placements": rows})
    note(f"wrote {output}")


def _measured_s(placement: Placement, records: Sequence[Record]) -> float | None:
    """Return the mean completion time of a placement's runs; None without runs."""
    labels = {"method": placement.method, "seed": placement.seed, "predicted_s": placement.completion_s}
    values = [each.value for each in records if each.metric == "completion_s" and labels.items() <= each.labels.items()]
    return sum(values) / len(values) if values else None
