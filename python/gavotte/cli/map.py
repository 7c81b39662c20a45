"""`gavotte map`: place one task on each host by topology mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json, NetworkFile, PlacementOutput, Seed
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import progress
from gavotte.cli.replay import ReplayOptions, note_replay, read_replay


@declared
def map_(
    network: NetworkFile,
    app: Annotated[Path, typer.Argument(help="The App to map.", metavar="A.app.toml")],
    *,
    method: str = option("Method of mapping. greedy is the RPCA paper's.", default="exchange"),
    hosts: str | None = option(
        "The hosts on which ranks 0, 1, ... already run: print the new rank of each instead of moving them.",
        "HOST,HOST,...",
        "--reorder",
    ),
    replaying: ReplayOptions,
    output: PlacementOutput = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Give each task its own host, so that tasks with much traffic are close together."""
    from gavotte.collective import ranks_over
    from gavotte.formats.app import read_app
    from gavotte.formats.network import read_network
    from gavotte.formats.parts.names import known_as, unknown_host
    from gavotte.formats.placement import write_placement
    from gavotte.mapping import keys, map_tasks, times_s

    snapshots = read_replay(replaying, seed)
    read = read_app(app)
    net = read_network(network)
    warn(unknown_pairs(net))
    with progress("mapping"):
        placed = map_tasks(net, read, method, seed=seed)
    order = None
    if hosts is not None:
        running = [known_as(host.strip(), net.names) for host in hosts.split(",")]
        for host in running:
            if host not in net.names:
                raise unknown_host(host, net.names, "the network")
        order = keys(placed, running)
    replayed: list[float] | None = None
    if snapshots is not None:
        at = list(placed.assignment.values())
        replayed = times_s(read, ranks_over(snapshots, at, net), net, at).tolist()
    if output is not None:
        write_placement(output, placed)
    if as_json:
        more = {"keys": order, "replayed_s": replayed}
        emit_json(placed.model_dump(mode="json") | {key: value for key, value in more.items() if value is not None})
    elif order is not None:
        typer.echo("\n".join(map(str, order)))
    else:
        emit_table(["task", "host"], [list(pair) for pair in placed.assignment.items()], words=["host"])
    limit = f", limited by the {placed.bottleneck}" if placed.bottleneck else ""
    note(f"{method}: predicted {placed.completion_s:.4g} s{limit}, seed {placed.seed}")
    if replayed:
        note_replay(replayed)
    if output is not None:
        note(f"wrote {output}")
