"""`gavotte ranks`: the order of hosts in which a launcher should start ranks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.networks import SearchOptions, effort_of, read_or_measure
from gavotte.cli.options import Json, MaybeHosts, read_size
from gavotte.cli.output import emit_json, note, warn
from gavotte.cli.progress import searching
from gavotte.cli.signals import leave
from gavotte.cli.traces import job_of, replayed_text
from gavotte.cli.writing import to_write

SORTED = {
    "c10d": "torchrun's c10d rendezvous sorts hosts by name as text, which would undo this order: use "
    "--rdzv-backend static with --node-rank",
    "slurm": "Slurm sorts hosts by name and number, which would undo this order: use SLURM_HOSTFILE with "
    "--distribution arbitrary",
}
"""Warning about each launcher that sorts hosts by name."""


@dataclass(frozen=True)
class PatternOptions:
    """The ranks, and who sends to whom."""

    pattern: str = option(
        "Who sends to whom: ring, alltoall, tree, halo:4x4x4, or an App with one task for each rank.",
        "PATTERN",
        default=REQUIRED,
    )
    count: int | None = option(
        "Number of ranks. By default one on each host.", "R", "-n", "--count", default=None, min=1
    )
    per_host: int | None = option("Most ranks on a host. By default as few as all hosts allow.", "R", min=1)
    trace: Path | None = option(
        "Trace of the job. After a search by bytes, a search on the job's replayed time gets the rest of --time-limit. "
        "By default the App's own trace.",
        "JOB.trace",
    )
    bytes_only: bool = option("Ignore the App's own trace.", default=False)
    size: str = option("Bytes of each message, for the predicted time.", "SIZE", default="1MB")


@declared
def ranks(
    hosts: MaybeHosts = None,
    *,
    network: Path | None = option(
        "Use this Network instead of measuring. With --hosts, only those of its hosts.", "N.network.json"
    ),
    asked: PatternOptions,
    searched: SearchOptions,
    output: Annotated[Path | None, to_write("Write the order to this file instead of stdout.", "FILE")] = None,
    as_json: Json = False,
) -> None:
    """Print the host of each rank, one line each, so that a communication pattern takes least time."""
    from gavotte.formats.files.reading import write_text
    from gavotte.formats.parts.counting import counted
    from gavotte.place import order_ranks, read_pattern

    if asked.trace is not None and asked.bytes_only:
        raise typer.BadParameter("use either --trace or --bytes-only")
    wanted = read_pattern(asked.pattern)
    message_bytes = read_size("--size", asked.size)
    net = read_or_measure(network, hosts, "--hosts", searched.seed)
    number = asked.count or wanted.ranks or len(net.hosts)
    app = wanted.application(number, message_bytes)
    own = Path(asked.pattern) if wanted.app is not None and not asked.bytes_only else None
    job = job_of(net, app, asked.trace, own, seed=searched.seed)
    with searching(searched.time_limit) as watch:
        order = order_ranks(net, app, effort_of(searched, watch), per_host=asked.per_host, job=job)
    replayed = order.replayed
    warnings = [*order.warnings, *(SORTED[name] for name in order.undone_by)]
    warn(warnings)
    lines = "".join(f"{host}\n" for host in order.hosts)
    if output is not None:
        write_text(output, lines)
    if as_json:
        document = {
            "order": order.hosts,
            "pattern": wanted.name,
            "completion_s": order.completion_s,
            "bound_s": order.bound_s,
            "given_s": order.given_s,
            "saving": order.saving,
            "replayed": None if replayed is None else asdict(replayed) | {"saving": replayed.saving},
            "seed": searched.seed,
            "interrupted": order.interrupted,
            "warnings": warnings,
        }
        emit_json(document if output is None else document | {"output": str(output)})
    elif output is None:
        typer.echo(lines, nl=False)
    gain = f"{order.saving:.0%} less than in the given order" if order.saving > 0 else "as in the given order"
    note(
        f"{counted(number, 'rank')}, {wanted.name}: predicted {order.completion_s:.3g} s, {gain} "
        f"({order.given_s:.3g} s); no order takes less than {order.bound_s:.3g} s; seed {searched.seed}"
    )
    if replayed is not None:
        note(replayed_text(replayed, "the given order takes"))
    if output is not None:
        note(f"wrote {output}")
    leave(order.interrupted)
