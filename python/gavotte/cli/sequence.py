"""`gavotte sequence`: place applications as they arrive, and migrate tasks where that pays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import AppFiles, Json, NetworkFile, Seed, Threads
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import progress
from gavotte.cli.writing import to_write

if TYPE_CHECKING:
    from gavotte.place.sequence import Decision, InSequence


@dataclass(frozen=True)
class SearchOptions:
    """When to reconsider placements, and how to search for each."""

    every: float | None = option("Reconsider all placements this often. By default never.", "SECONDS")
    migration_cost: float | None = option("Pause of the application for each task that migrates.", "SECONDS", min=0)
    method: str = option("Method of placing. See `gavotte place --help`.", default="auto")
    time_limit: float = option("Time to search for each placement.", "SECONDS", default=1.0, min=0.01, max=1e6)
    threads: Threads = None


@declared
def sequence(
    network: NetworkFile,
    apps: AppFiles,
    asked: SearchOptions,
    output: Annotated[
        Path | None,
        to_write("Write where all tasks start to this file.", "P.placement.json"),
    ] = None,
    migrated: Path | None = option(
        "Write the Apps with their migrations to this folder, for `gavotte run` with the file of -o.", "FOLDER"
    ),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Place applications as they arrive, next to those that run, and migrate tasks where that pays."""
    from gavotte.errors import GavotteError
    from gavotte.formats.app import read_app, write_app
    from gavotte.formats.network import read_network
    from gavotte.formats.placement import write_placement
    from gavotte.place import Effort
    from gavotte.place.sequence import sequence as place_in_sequence
    from gavotte.place.sequence import state_of, unfold
    from gavotte.simulate import Advance

    if migrated is not None and (output is None or asked.every is None):
        raise typer.BadParameter("--migrated needs --every, and -o for the placement that goes with it")
    if (asked.every is None) != (asked.migration_cost is None):
        raise typer.BadParameter("--every and --migration-cost need each other")
    cost_s = asked.migration_cost or 0.0
    net, loaded = read_network(network), [read_app(app) for app in apps]
    warn(unknown_pairs(net))
    if migrated is not None:
        try:
            migrated.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GavotteError(
                f"{migrated}: cannot create this folder: {error.strerror}", hint="name another one"
            ) from None
    with progress("placing"):
        done = place_in_sequence(
            net,
            loaded,
            Advance(net),
            every_s=asked.every,
            migration_s=cost_s,
            effort=Effort(asked.method, asked.time_limit, seed, asked.threads),
        )
    unfolded, placement = loaded, done.placement
    if migrated is not None:
        unfolded, placement = unfold(loaded, done, state_of(net, cost_s))
        for app in unfolded:
            write_app(migrated / f"{app.name}.app.toml", app)
    if output is not None:
        write_placement(output, placement)
    if as_json:
        emit_json(_document(done, asked.every, cost_s))
    else:
        _emit(done)
        note(f"sum of running times {done.sum_s:.3f} s by the fluid model; {asked.method}, seed {seed}")
    if output is not None:
        moved = sum(len(review.decision.moves) for review in done.reviews)
        how = "with" if migrated is not None else "without"
        note(f"wrote {output}" + (f", {how} the {moved} migrations" if moved else ""))


def _emit(done: InSequence) -> None:
    rows: list[tuple[float, int, list[str]]] = []
    for arrival in done.arrivals:
        by_host: dict[str, list[str]] = {}
        for task, host in arrival.placement.assignment.items():
            by_host.setdefault(host, []).append(task)
        where = "; ".join(f"{host}: {' '.join(tasks)}" for host, tasks in sorted(by_host.items()))
        rows.append((arrival.time_s, 0, ["arrives", arrival.app, where]))
    for review in done.reviews:
        rows += [
            (review.time_s, 1, ["migrates", move.app, f"{move.task} from {move.source} to {move.target}"])
            for move in review.decision.moves
        ]
        rows.append((review.time_s, 2, ["reviewed", " ".join(review.apps), _words(review.decision)]))
    emit_table(
        ["at s", "", "application", "what"],
        [[f"{time_s:.3f}", *cells] for time_s, _, cells in sorted(rows, key=lambda row: row[:2])],
        words=["", "application", "what"],
    )
    emit_table(
        ["application", "ran for s"],
        [[app, f"{running_s:.3f}"] for app, running_s in done.running_s.items()],
        title="\nrunning times from arrival",
    )


def _words(decision: Decision) -> str:
    if not decision.moves:
        return "keeps its placement: no migration saves more than it costs"
    return f"saves {decision.saving_s:.3g} s of {decision.keep_s:.3g} s, after {decision.cost_s:.3g} s of pause"


def _document(done: InSequence, every_s: float | None, migration_s: float) -> dict[str, Any]:
    return {
        "method": done.placement.method,
        "seed": done.placement.seed,
        "every_s": every_s,
        "migration_s": migration_s,
        "arrivals": [
            {
                "app": one.app,
                "time_s": one.time_s,
                "beside": one.beside,
                "assignment": one.placement.assignment,
                "predicted_s": one.placement.completion_s,
            }
            for one in done.arrivals
        ],
        "reviews": [
            {
                "time_s": one.time_s,
                "apps": one.apps,
                "keep_s": one.decision.keep_s,
                "move_s": one.decision.move_s,
                "cost_s": one.decision.cost_s,
                "saving_s": one.decision.saving_s,
                "moves": [
                    {"app": move.app, "task": move.task, "source": move.source, "target": move.target}
                    for move in one.decision.moves
                ],
            }
            for one in done.reviews
        ],
        "running_s": done.running_s,
        "sum_s": done.sum_s,
        "completion_s": done.placement.completion_s,
    }
