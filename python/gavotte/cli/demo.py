"""`gavotte demo`: run the main job end to end in a lab."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

from gavotte.cli.options import Json, Seed
from gavotte.cli.output import emit_json, emit_table, note
from gavotte.cli.progress import BYTES, progress
from gavotte.cli.writing import to_write
from gavotte.terms import Progress


def _shown(step: str) -> AbstractContextManager[Progress]:
    """Show the progress of one step; only running an application counts bytes."""
    return progress(step, BYTES if step.startswith("running ") else "")


def demo(
    seed: Seed = 0,
    report: Annotated[Path | None, to_write("Write the HTML report to this file.", "FILE", "--report")] = Path(
        "gavotte-demo.html"
    ),
    as_json: Json = False,
) -> None:
    """Measure an emulated cloud, place a captured application on it, send its bytes and show the gain."""
    from gavotte.demo import demo as story

    result = story(seed=seed, report_file=report, steps=_shown)
    if as_json:
        emit_json(
            {
                "paths": result.paths,
                "answered": result.answered,
                "measure_s": result.measure_s,
                "seed": result.seed,
                "placements": [
                    {
                        "method": outcome.placement.method,
                        "predicted_s": outcome.placement.completion_s,
                        "simulated_s": outcome.simulated_s,
                        "measured_s": outcome.measured_s,
                    }
                    for outcome in result.outcomes
                ],
                "gain_over_baselines": result.gain_over_baselines,
                "report": None if result.report is None else str(result.report),
            }
        )
        return
    rows = [
        [o.placement.method, *(f"{time_s:.2f} s" for time_s in (o.placement.completion_s, o.simulated_s, o.measured_s))]
        for o in result.outcomes
    ]
    note(f"{result.answered} of {result.paths} paths measured in {result.measure_s:.2f} s, seed {result.seed}")
    emit_table(["placement", "predicted", "simulated", "measured"], rows)
    for method, gain in result.gain_over_baselines.items():
        less = "less" if gain >= 0 else "more"
        note(f"{method} takes {abs(100 * gain):.0f} % {less} than the mean of the three baselines")
    if result.report is not None:
        note(f"report: {result.report}")
