"""`gavotte measure calibrate`: find the trains that agree with bulk TCP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.options import Hosts, Json, Seed, TakeOver, to_write
from gavotte.cli.output import emit_json, emit_table, json_text, note, progress, warn_beside
from gavotte.formats.rates import format_bytes


def calibrate(
    hosts: Hosts,
    paths: Annotated[int, typer.Option("--paths", help="Number of paths to compare on.", min=1, metavar="N")] = 6,
    bulk_s: Annotated[
        float, typer.Option("--bulk-s", help="Duration of bulk TCP on each path.", min=0.5, max=60, metavar="SECONDS")
    ] = 3.0,
    bursts: Annotated[
        list[int] | None,
        typer.Option(
            "--bursts", help="K to try; may be repeated. 10, 20 and 50 if left out.", min=1, max=1000, metavar="K"
        ),
    ] = None,
    packets: Annotated[
        list[int] | None,
        typer.Option(
            "--packets", help="B to try; may be repeated. 50 to 4000 if left out.", min=2, max=20_000, metavar="B"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        to_write("Write the result to this file, for `measure --calibration`.", "C.json"),
    ] = None,
    seed: Seed = 0,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Find the Choreo trains (K bursts of B packets) that agree with bulk TCP on this network (section 4.1)."""
    from gavotte.agents import resolve_hosts
    from gavotte.errors import GavotteError
    from gavotte.formats.reading import write_text
    from gavotte.measure.calibrate import BURSTS, PACKETS
    from gavotte.measure.calibrate import calibrate as compare

    with progress("calibrating") as advance:
        comparison = compare(
            resolve_hosts(hosts),
            bursts=bursts or BURSTS,
            packets=packets or PACKETS,
            paths=paths,
            bulk_s=bulk_s,
            seed=seed,
            progress=advance,
            take_over=take_over,
        )
    document = {
        "trains": comparison.to_records(),
        "best": None if comparison.best is None else vars(comparison.best),
        "paths": comparison.paths,
        "seed": comparison.seed,
        "beside": [each.as_dict() for each in comparison.beside],
    }
    warn_beside(comparison.beside, "trains and bulk TCP may have had different competing traffic")
    if output is not None:
        write_text(output, json_text(document))
    if as_json:
        emit_json(document)
        return
    rows = [
        [
            f"{t.bursts} x {t.packets} x {t.payload_bytes}",
            f"{100 * t.mean_error:.1f} %" if t.answered else "-",
            str(t.answered),
            format_bytes(t.bytes),
        ]
        for t in comparison.trains
    ]
    emit_table(["K x B x payload", "mean error", "paths", "bytes per path"], rows)
    if comparison.best is None:
        raise GavotteError("no train answered", hint="try smaller ones: fewer --bursts or --packets")
    best = comparison.best
    how = f"--calibration {output}" if output else f"--bursts {best.bursts} --packets {best.packets}"
    note(f"{100 * best.mean_error:.1f} % off: gavotte measure --method choreo {how}")
