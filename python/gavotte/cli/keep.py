"""`gavotte keep`: which of the rented hosts to keep, and which to give back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.networks import SearchOptions, effort_of, read_or_measure
from gavotte.cli.options import Json, read_size
from gavotte.cli.output import emit_json, emit_table, note, warn
from gavotte.cli.progress import searching
from gavotte.cli.signals import leave


@declared
def keep(
    count: Annotated[int, typer.Argument(help="How many hosts to keep.", min=1)],
    *,
    of: str | None = option(
        "The hosts to measure: `lab`, a *.hosts.toml, ssh-config:GLOB, slurm, mpi:HOSTFILE, "
        "kubeconfig[:CONTEXT], or names: a,b,c.",
        "lab|FILE|...",
    ),
    network: Path | None = option(
        "Use this Network instead of measuring. With --of, only those of its hosts.", "N.network.json"
    ),
    pattern: str | None = option(
        "Who sends to whom, with a rank on each host kept: ring, alltoall, tree, halo:4x4x4, or an App with a task for "
        "each rank. By default alltoall.",
        "PATTERN",
    ),
    app: Path | None = option("Keep hosts for this App, whose tasks share hosts by their cores.", "A.app.toml"),
    size: str = option("Bytes of each message of --pattern, for the predicted time.", "SIZE", default="1MB"),
    searched: SearchOptions,
    as_json: Json = False,
) -> None:
    """Decide which hosts to keep and which to give back, so that an application on those kept finishes soonest."""
    from gavotte.formats.app import read_app
    from gavotte.place import keep_hosts, read_pattern

    if pattern is not None and app is not None:
        raise typer.BadParameter("give either --pattern or --app")
    message_bytes = read_size("--size", size)
    wanted = read_pattern(pattern or "alltoall")
    job = read_app(app) if app is not None else wanted.application(wanted.ranks or count, message_bytes)
    net = read_or_measure(network, of, "--of", searched.seed)
    with searching(searched.time_limit) as watch:
        chosen = keep_hosts(net, job, count, effort_of(searched, watch), one_each=app is None)
    warn(chosen.warnings)
    if as_json:
        emit_json(
            {
                "keep": chosen.keep,
                "release": chosen.release,
                "completion_s": chosen.completion_s,
                "bound_s": chosen.bound_s,
                "given_s": chosen.given_s,
                "saving": chosen.saving,
                "seed": searched.seed,
                "interrupted": chosen.interrupted,
                "warnings": chosen.warnings,
            }
        )
    else:
        kept = set(chosen.keep)
        emit_table(["host", "decision"], [[name, "keep" if name in kept else "release"] for name in net.names])
    gain = f"{chosen.saving:.0%} less than on" if chosen.saving > 0 else "as on"
    note(
        f"{job.name}: predicted {chosen.completion_s:.3g} s, {gain} the first {count} hosts ({chosen.given_s:.3g} s); "
        f"no {count} hosts take less than {chosen.bound_s:.3g} s; seed {searched.seed}"
    )
    leave(chosen.interrupted)
