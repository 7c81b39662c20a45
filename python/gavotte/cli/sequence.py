"""`gavotte sequence`: place applications as they arrive, and migrate tasks where that pays; simulated or for real."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import AppFiles, Json, NetworkFile, Seed, Threads
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import progress
from gavotte.cli.shell_words import words_of
from gavotte.cli.signals import leave, stop_flag
from gavotte.cli.writing import to_write

if TYPE_CHECKING:
    from gavotte.formats.app import App
    from gavotte.formats.network import Network
    from gavotte.launch.live import LiveQuestion, LiveResult
    from gavotte.place import Effort
    from gavotte.place.sequence import Decision, InSequence, Review


@dataclass(frozen=True)
class SearchOptions:
    """When to reconsider placements, and how to search for each."""

    every: float | None = option("Reconsider all placements this often. By default never.", "SECONDS")
    migration_cost: float | None = option("Pause of the application for each task that migrates.", "SECONDS", min=0)
    method: str = option("Method of placing. See `gavotte place --help`.", default="auto")
    time_limit: float = option("Time to search for each placement.", "SECONDS", default=1.0, min=0.01, max=1e6)
    threads: Threads = None


@dataclass(frozen=True)
class LiveOptions:
    """How to carry the sequence out."""

    live: str | None = option(
        "Run this command for each application when it arrives, and again when its tasks have moved; {app}, {hosts}, "
        "{hostfile} and {placement} stand for its name, the hosts of its tasks, a file with them, and the Placement.",
        "COMMAND",
        "--live",
    )
    folder: Path = option(
        "Folder for placements, host files and output of --live.",
        "FOLDER",
        "--live-folder",
        default=Path("gavotte-live"),
    )
    stop_time: float = option(
        "Time for an application of --live to stop after SIGTERM, before it is killed.", "SECONDS", default=30.0, min=0
    )
    dry_run: bool = option("Simulate, and print the commands that --live would start first.", default=False)

    def check(self, writing: Writing) -> None:
        """Refuse options that do not belong together."""
        if self.live is None and self.dry_run:
            raise typer.BadParameter("--dry-run is for --live")
        if self.live is not None and (writing.output is not None or writing.migrated is not None):
            raise typer.BadParameter("--live writes its own placements: leave out -o and --migrated")


@declared
def sequence(
    network: NetworkFile,
    apps: AppFiles,
    asked: SearchOptions,
    carried: LiveOptions,
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
    """Place applications as they arrive, next to those that run, and migrate tasks where that pays.

    It simulates them. With `--live` it runs them.
    """
    from gavotte.formats.app import read_app
    from gavotte.formats.network import read_network
    from gavotte.place import Effort

    writing = Writing(output, migrated)
    writing.check(asked)
    carried.check(writing)
    effort = Effort(asked.method, asked.time_limit, seed, asked.threads)
    net, loaded = read_network(network), [read_app(app) for app in apps]
    warn(unknown_pairs(net))
    question = None if carried.live is None else _live_question(network, loaded, asked, carried, effort)
    if question is not None and not carried.dry_run:
        _carry_out(question, as_json=as_json)
        return
    done = _simulate(net, loaded, asked, effort)
    moved = writing.write(net, loaded, done, asked)
    if as_json:
        emit_json(_document(done, asked.every, asked.migration_cost or 0.0))
    else:
        _emit(done)
        note(f"sum of running times {done.sum_s:.3f} s by the fluid model; {asked.method}, seed {seed}")
    if output is not None:
        how = "with" if migrated is not None else "without"
        note(f"wrote {output}" + (f", {how} the {moved} migrations" if moved else ""))
    if question is not None:
        by_name = {app.name: app for app in loaded}
        for arrival in done.arrivals:
            words = question.filled(by_name[arrival.app], arrival.placement.assignment)
            note(f"{arrival.time_s:.3f} s: --live would run: {shlex.join(words)}")


@dataclass(frozen=True)
class Writing:
    """The files that a simulated sequence leaves."""

    output: Path | None
    migrated: Path | None

    def check(self, asked: SearchOptions) -> None:
        """Refuse options that do not belong together, and make the folder.

        Raises:
            GavotteError: when the folder cannot be made.
        """
        from gavotte.errors import GavotteError

        if self.migrated is not None and (self.output is None or asked.every is None):
            raise typer.BadParameter("--migrated needs --every, and -o for the placement that goes with it")
        if (asked.every is None) != (asked.migration_cost is None):
            raise typer.BadParameter("--every and --migration-cost need each other")
        if self.migrated is None:
            return
        try:
            self.migrated.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GavotteError(
                f"{self.migrated}: cannot create this folder: {error.strerror}", hint="name another one"
            ) from None

    def write(self, network: Network, apps: list[App], done: InSequence, asked: SearchOptions) -> int:
        """Write the files. Return the number of migrations."""
        from gavotte.formats.app import write_app
        from gavotte.formats.placement import write_placement
        from gavotte.place.sequence import state_of, unfold

        placement = done.placement
        if self.migrated is not None:
            unfolded, placement = unfold(apps, done, state_of(network, asked.migration_cost or 0.0))
            for app in unfolded:
                write_app(self.migrated / f"{app.name}.app.toml", app)
        if self.output is not None:
            write_placement(self.output, placement)
        return sum(len(review.decision.moves) for review in done.reviews)


def _simulate(network: Network, apps: list[App], asked: SearchOptions, effort: Effort) -> InSequence:
    from gavotte.place.sequence import sequence as place_in_sequence
    from gavotte.simulate import Advance

    with progress("placing"):
        return place_in_sequence(
            network,
            apps,
            Advance(network),
            every_s=asked.every,
            migration_s=asked.migration_cost or 0.0,
            effort=effort,
        )


def _live_question(
    network: Path, apps: list[App], asked: SearchOptions, carried: LiveOptions, effort: Effort
) -> LiveQuestion:
    from gavotte.formats.network import read_network
    from gavotte.launch.live import LiveQuestion

    return LiveQuestion(
        read=lambda: read_network(network),
        apps=apps,
        command=words_of(carried.live or "", "--live"),
        folder=carried.folder.absolute(),
        every_s=asked.every,
        migration_s=asked.migration_cost or 0.0,
        end_s=carried.stop_time,
        effort=effort,
    )


def _carry_out(question: LiveQuestion, *, as_json: bool) -> None:
    """Run the applications, and print what ran where and when. Exit with status 1 if one failed."""
    from gavotte.launch.live import LiveSession, live

    with stop_flag() as stop:
        result = live(question, LiveSession(note, lambda text: warn([text]), stop))
    if as_json:
        emit_json(_live_document(result, question))
    else:
        _emit_live(result)
        note(f"sum of running times {result.sum_s:.3f} s; {question.effort.method}, seed {question.effort.seed}")
    leave(result.interrupted)
    if result.failed:
        raise typer.Exit(1)


def _emit_live(result: LiveResult) -> None:
    def seconds(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    emit_table(
        ["application", "arrived at s", "started at s", "ended at s", "predicted s", "ran for s", "moves", "status"],
        [
            [
                each.app,
                *map(seconds, (each.arrived_s, each.started_s, each.ended_s, each.predicted_s, each.running_s)),
                str(len(each.moves)),
                "no room" if each.status is None else str(each.status),
            ]
            for each in result.ran
        ],
        words=["application", "status"],
    )


def _live_document(result: LiveResult, question: LiveQuestion) -> dict[str, Any]:
    return {
        "method": question.effort.method,
        "seed": question.effort.seed,
        "every_s": question.every_s,
        "migration_s": question.migration_s,
        "ran": [each.document for each in result.ran],
        "reviews": [_review_document(each) for each in result.reviews],
        "sum_s": result.sum_s,
        "interrupted": result.interrupted,
    }


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
        "reviews": [_review_document(each) for each in done.reviews],
        "running_s": done.running_s,
        "sum_s": done.sum_s,
        "completion_s": done.placement.completion_s,
    }


def _review_document(review: Review) -> dict[str, Any]:
    decision = review.decision
    return {
        "time_s": review.time_s,
        "apps": review.apps,
        "keep_s": decision.keep_s,
        "move_s": decision.move_s,
        "cost_s": decision.cost_s,
        "saving_s": decision.saving_s,
        "moves": [
            {"app": move.app, "task": move.task, "source": move.source, "target": move.target}
            for move in decision.moves
        ],
    }
