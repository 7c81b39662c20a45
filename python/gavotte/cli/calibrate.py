"""`gavotte measure calibrate`: find the trains that agree with bulk TCP."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Hosts, Json, Seed, TakeOver
from gavotte.cli.output import emit_json, emit_table, json_text, note, warn, with_information
from gavotte.cli.progress import progress
from gavotte.cli.writing import to_write
from gavotte.formats.parts.rates import format_bytes


@dataclass(frozen=True)
class CompareOptions:
    """Which trains to compare with bulk TCP, and on how many paths."""

    paths: int = option("Number of paths to compare on.", "N", default=6, min=1)
    bulk_s: float = option("Duration of bulk TCP on each path.", "SECONDS", default=3.0, min=0.5, max=60)
    bursts: list[int] | None = option("K to try; may be repeated. 10, 20 and 50 if left out.", "K", min=1, max=1000)
    packets: list[int] | None = option("B to try; may be repeated. 50 to 4000 if left out.", "B", min=2, max=20_000)


@dataclass(frozen=True)
class ResultOptions:
    """Where the result goes."""

    output: Annotated[
        Path | None,
        to_write("Write the result to this file, for `measure --calibration`.", "C.json"),
    ] = None
    seed: Seed = 0
    take_over: TakeOver = False
    as_json: Json = False


@declared
def calibrate(hosts: Hosts, asked: CompareOptions, writing: ResultOptions) -> None:
    """Find the Choreo trains (K bursts of B packets) that agree with bulk TCP on this network (section 4.1)."""
    from gavotte.agents import resolve_hosts
    from gavotte.errors import GavotteError
    from gavotte.formats.files.reading import write_text
    from gavotte.measure import ProbeSession
    from gavotte.measure.calibrate import BURSTS, PACKETS, CalibrationQuestion, plan_calibration
    from gavotte.measure.calibrate import calibrate as compare

    with progress("calibrating", "paths") as advance:
        advance(0, asked.paths)
        question = CalibrationQuestion(
            resolve_hosts(hosts),
            asked.bursts or BURSTS,
            asked.packets or PACKETS,
            paths=asked.paths,
            bulk_s=asked.bulk_s,
            seed=writing.seed,
        )
        comparison = compare(plan_calibration(question), ProbeSession(advance, writing.take_over))
    document = {
        "trains": comparison.to_records(),
        "best": None if comparison.best is None else vars(comparison.best),
        "paths": comparison.paths,
        "seed": comparison.seed,
        "beside": [each.as_dict() for each in comparison.beside],
    }
    warn(comparison.warnings)
    if writing.output is not None:
        write_text(writing.output, json_text(document))
    if writing.as_json:
        emit_json(document)
        return
    rows = [
        [
            f"{t.bursts} x {t.packets} x {t.payload_bytes}",
            f"{100 * t.mean_error:.1f} %" if t.answered else "-",
            str(t.answered),
            format_bytes(t.bytes),
        ]
        for t in with_information(comparison.trains, lambda train: train.answered, "train", "without an answer")
    ]
    emit_table(["K x B x payload", "mean error", "paths", "bytes per path"], rows)
    if comparison.best is None:
        raise GavotteError("no train answered", hint="try smaller ones: fewer --bursts or --packets")
    best = comparison.best
    how = f"--calibration {writing.output}" if writing.output else f"--bursts {best.bursts} --packets {best.packets}"
    note(f"{100 * best.mean_error:.1f} % off: gavotte measure --method choreo {how}")
