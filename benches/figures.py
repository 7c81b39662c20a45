"""Writes the tables and plots of docs/results from the recorded numbers in docs/results/data.

    make bench-figures [ARGS="--check"]

A page has `<!-- figure: NAME -->` and `<!-- end -->`. The part between them is written from `data/NAME.json`: a table
with the command that printed it, machine, date, seed and samples, and `plots/NAME.svg`. `--check` writes nothing and
fails if a page or a plot differs from its data.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PLACE = re.compile(r"<!-- figure: ([a-z0-9-]+) -->\n.*?<!-- end -->", re.DOTALL)
SPAN = re.compile(r"(\d+) to (\d+)$")
VALUE = re.compile(r"-?\d+(?:\.\d+)?")
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442")
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""
LABEL = 36
"""Longer names of rows are broken into lines."""
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "gavotte",
    "svg.fonttype": "none",
}

Figure = dict[str, Any]


def figures() -> dict[str, Figure]:
    """Return the recorded numbers by name."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((RESULTS / "data").glob("*.json"))}


def table(name: str, figure: Figure) -> str:
    """Return the figure as a page shows it: a table, its source, and its plot."""
    rows = [figure["columns"], ["---"] * len(figure["columns"]), *figure["rows"]]
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
    sources = figure.get("sources")
    origins = [f"- {', '.join(each['of'])}: {origin(each)}" for each in sources] if sources else [origin(figure)]
    return "\n".join([*lines, "", *origins, "", f"![{figure['title']}](plots/{name}.svg)"])


def origin(source: Figure) -> str:
    """Return the command that printed numbers, its date, machine, seed and samples."""
    return f"`{source['command']}`, {source['date']}: {source['machine']}; seed {source['seed']}, {source['samples']}."


def page(text: str, known: dict[str, Figure]) -> str:
    """Return a page with all its figures written again."""
    return PLACE.sub(lambda at: f"<!-- figure: {at[1]} -->\n{table(at[1], known[at[1]])}\n<!-- end -->", text)


def digest(figure: Figure) -> str:
    """Return the hash of a figure's numbers that its plot keeps."""
    return hashlib.sha256(json.dumps(figure, sort_keys=True).encode()).hexdigest()


def steps(figure: Figure, path: Path) -> None:
    """Draw the distribution of each of the figure's `curves`, sorted numbers, as steps from 0 to 1."""
    with mpl.rc_context(STYLE):
        picture, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
        for number, (label, values) in enumerate(figure["curves"].items()):
            shares = [(at + 1) / len(values) for at in range(len(values))]
            dashes = "-" if number < len(COLOURS) else "--"
            colour = COLOURS[number % len(COLOURS)]
            axes.step(
                [values[0], *values], [0, *shares], dashes, where="post", color=colour, label=label.replace("`", "")
            )
        axes.set_xlabel(figure["plot"]["unit"])
        axes.set_ylabel("share of receivers")
        axes.set_ylim(0, 1)
        picture.legend(loc="outside upper left", ncols=1, frameon=False, fontsize=7)
        _save(picture, figure, path)


def plane(figure: Figure, path: Path) -> None:
    """Draw each of the figure's `planes`: points by their true group (marker) and by the inferred one (colour)."""
    planes = figure["planes"]
    with mpl.rc_context(STYLE):
        picture, all_axes = plt.subplots(1, len(planes), figsize=(7, 3.4), layout="constrained", squeeze=False)
        for axes, (title, points) in zip(all_axes[0], planes.items(), strict=True):
            for x, y, group, inferred in points:
                axes.plot(x, y, "os^Dv"[group % 5], color=COLOURS[inferred % len(COLOURS)], markersize=5)
            axes.set_title(title, fontsize=9)
            axes.set_aspect("equal", "datalim")
            axes.set_xlabel(figure["plot"]["unit"])
        _save(picture, figure, path)


def draw(figure: Figure, path: Path) -> None:
    """Draw bars with a group for each row, or lines over the first column; ± becomes an error bar."""
    plot = figure["plot"]
    if plot["kind"] == "cdf":
        steps(figure, path)
        return
    if plot["kind"] == "plane":
        plane(figure, path)
        return
    series = {figure["columns"][column]: column for column in plot["columns"]}
    lines = plot["kind"] == "lines"
    needed = [0] if lines else []
    rows = [
        row
        for row in figure["rows"]
        if all(VALUE.search(row[at]) for at in needed) and any(VALUE.search(row[at]) for at in series.values())
    ]
    with mpl.rc_context(STYLE):
        height = 3.2 if lines else 0.8 + len(rows) * (0.12 + 0.17 * len(series))
        picture, axes = plt.subplots(figsize=(7, height), layout="constrained")
        for number, (label, column) in enumerate(series.items()):
            matches = [(at, *_value(row[column])) for at, row in enumerate(rows) if VALUE.search(row[column])]
            at, values, errors = [list(each) for each in zip(*matches, strict=True)]
            style = {"color": COLOURS[number], "label": label.replace("`", "")}
            if lines:
                x = [_value(rows[each][0])[0] for each in at]
                axes.errorbar(x, values, yerr=errors, marker="os^Dv"[number % 5], capsize=3, **style)
            else:
                width = 0.8 / len(series)
                y = [each + (number - (len(series) - 1) / 2) * width for each in at]
                axes.barh(y, values, width, xerr=errors, error_kw={"capsize": 2, "elinewidth": 0.8}, **style)
        if lines:
            axes.set_xlabel(figure["columns"][0].replace("`", ""))
            axes.set_ylabel(plot["unit"])
            if plot.get("scale") != "log":
                axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
            if plot.get("across") == "log":
                axes.set_xscale("log")
        else:
            axes.set_yticks(range(len(rows)), [textwrap.fill(row[0].replace("`", ""), LABEL) for row in rows])
            axes.invert_yaxis()
            axes.set_xlabel(plot["unit"])
            axes.axvline(0, color="black", linewidth=0.6)
        if plot.get("scale") == "log":
            (axes.set_yscale if lines else axes.set_xscale)("log")
        if len(series) > 1:
            picture.legend(loc="outside upper left", ncols=plot.get("legend_columns", 2), frameon=False)
        _save(picture, figure, path)


def _save(picture: Any, figure: Figure, path: Path) -> None:
    picture.savefig(path, format=path.suffix[1:], dpi=100, metadata={"Description": digest(figure), **_dateless(path)})
    plt.close(picture)


def _dateless(path: Path) -> dict[str, None]:
    return {"Date": None} if path.suffix == ".svg" else {}


def _value(cell: str) -> tuple[float, float]:
    """Return a cell's first number and the one after its ±, 0 if missing; for `32 to 40`, the middle and half the width."""
    if span := SPAN.match(cell):
        low, high = float(span[1]), float(span[2])
        return (low + high) / 2, (high - low) / 2
    first, _, error = cell.partition("±")
    match = VALUE.search(first)
    assert match, cell
    spread = VALUE.search(error)
    return float(match[0]), float(spread[0]) if spread else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    known, stale = figures(), []
    for path in sorted(RESULTS.glob("*.md")):
        text = path.read_text("utf-8")
        if text != page(text, known):
            stale.append(str(path))
            path.write_text(text if check else page(text, known), "utf-8")
    for name, figure in known.items():
        plot = RESULTS / "plots" / f"{name}.svg"
        if not plot.exists() or digest(figure) not in plot.read_text("utf-8"):
            stale.append(str(plot))
            if not check:
                plot.parent.mkdir(exist_ok=True)
                draw(figure, plot)
    print("\n".join(stale) if stale else "pages and plots are as their data says")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
