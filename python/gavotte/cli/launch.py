"""`gavotte launch`: start a job with its ranks where their messages take least time."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import MaybeHosts, Seed, StoreUrl
from gavotte.cli.output import emit_json, emit_table, json_text, note, unknown_pairs, warn

if TYPE_CHECKING:
    from gavotte.formats.app import App
    from gavotte.formats.inventory import Inventory
    from gavotte.formats.record import Record
    from gavotte.formats.trace import MpiTrace
    from gavotte.launch import Launched, LaunchPlan, LaunchQuestion, LaunchSession
    from gavotte.launch.past import WallTime


@dataclass(frozen=True)
class KnownOptions:
    """What is known of the hosts and the messages."""

    hosts: MaybeHosts = None
    network: Path | None = option("Use this Network instead of the store's newest, or a measurement.", "N.network.json")
    app: Path | None = option("Use the messages of this App: one task for each rank, in their order.", "A.app.toml")
    store: StoreUrl = None
    max_age: float = option(
        "Measure again if the store's newest measurement is older.", "SECONDS", default=86_400.0, min=0
    )
    no_measure: bool = option("Never measure. Without a Network the launcher's own order is used.", default=False)
    count: bool = option("Count the messages in this run, although the store knows them.", default=False)
    scratch: Path | None = option(
        "Folder that all hosts share, for the counts of the first run. By default ~/.cache/gavotte/launch.", "FOLDER"
    )


@dataclass(frozen=True)
class RunOptions:
    """How to choose the order, and what to do."""

    time_limit: float = option("Longest search for an order.", "SECONDS", default=3.0, min=0.01)
    seed: Seed = 0
    repeat: int = option("Run the command this many times, or until it fails.", "N", default=1, min=1)
    dry_run: bool = option(
        "Print what would be started and what that would take. Start and write nothing.", default=False
    )
    reorder_sums: bool = option(
        "Let the MPI library's algorithms that are set for reduce and allreduce add sums in another order.",
        default=False,
    )
    self_tuning: bool = option(
        "Let the preloaded library tune collectives while the job runs, without a Network or a trace. "
        "Nothing is set for the MPI library then.",
        default=False,
    )
    explain: bool = option(
        "Print which algorithms of collectives are set for the MPI library, and what each is predicted to save.",
        default=False,
    )
    history: bool = option("List earlier launches instead.", default=False)
    json_file: str | None = option(
        "Write the result as JSON to this file; without a file, to stdout.", "[FILE]", "--json"
    )


@declared
def launch(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="After `--`: mpirun, mpiexec, srun or torchrun, with its options and the program.",
            metavar="-- COMMAND",
        ),
    ] = None,
    *,
    known: KnownOptions,
    running: RunOptions,
) -> int | None:
    """Run a job with its ranks where their messages take least time. The first run counts the messages."""
    from gavotte.launch import carry_out, off, plan_launch

    if running.json_file not in (None, "-"):
        from gavotte.formats.files.reading import check_folder

        check_folder(str(running.json_file))
    words = list(command or ())
    words = words[1:] if words[:1] == ["--"] else words
    if running.history:
        _list(known.store, running.json_file)
        return None
    if not words:
        raise typer.BadParameter("name the command after `--`")
    if off() and not running.dry_run:
        _become(words)
    question, session = _question(words, known, running), _session(running.seed)
    if running.dry_run:
        plan = plan_launch(question, session)
        if running.json_file is None:
            _show(plan)
            for line in _explained(plan) if running.explain else ():
                print(line)
        else:
            _write(running.json_file, plan.document)
        return None
    runs: list[Launched] = []
    while len(runs) < running.repeat and not (runs and runs[-1].status):
        plan = plan_launch(question, session)
        _announce(plan)
        for line in _explained(plan) if running.explain else ():
            note(line)
        runs.append(carry_out(plan, session))
        _report(runs[-1])
    if running.json_file is not None:
        more = {"walls_s": [each.wall_s for each in runs]} if running.repeat > 1 else {}
        _write(running.json_file, runs[-1].document | more)
    return runs[-1].status


def _question(words: Sequence[str], known: KnownOptions, running: RunOptions) -> LaunchQuestion:
    """Return the question that the options ask."""
    from gavotte.formats.app import read_app
    from gavotte.formats.network import read_network
    from gavotte.launch import LaunchQuestion, tuning_off
    from gavotte.place import Effort

    network = None if known.network is None else read_network(known.network)
    if network is not None:
        warn(unknown_pairs(network))
    app = None if known.app is None else read_app(known.app)
    return LaunchQuestion(
        command=words,
        hosts=known.hosts,
        network=network,
        app=app,
        trace=None if app is None or known.app is None else _trace(known.app, app),
        store=known.store,
        max_age_s=known.max_age,
        measuring=not known.no_measure,
        counting=known.count,
        scratch=known.scratch,
        effort=Effort(time_limit_s=running.time_limit, seed=running.seed),
        tuning=not tuning_off() and not running.self_tuning,
        reorder_sums=running.reorder_sums,
        self_tuning=not tuning_off() and running.self_tuning,
        explaining=running.explain,
        dry=running.dry_run,
    )


def _trace(path: Path, app: App) -> MpiTrace | None:
    """Return the trace that an App names, as a path from the App's folder."""
    from gavotte.formats.trace import read_trace

    return None if app.trace is None else read_trace(path.parent / app.trace)


def _session(seed: int) -> LaunchSession:
    """Return callbacks that print, and measure with a bar."""
    from gavotte.launch import LaunchSession

    def measure(inventory: Inventory) -> Any:
        from gavotte.cli.networks import measured_history

        return measured_history(inventory, seed)

    return LaunchSession(measure, note, lambda text: warn([text]))


def _become(words: Sequence[str]) -> NoReturn:
    """Replace this process by the command."""
    from gavotte.errors import GavotteError

    sys.stdout.flush()
    # Python ignores it, and the command would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(words[0], list(words))
    except (OSError, ValueError) as error:
        raise GavotteError(f"cannot start `{words[0]}`: {error}", hint="check its path") from None


def _write(file: str, document: dict[str, Any]) -> None:
    """Write a document to a file; `-` is stdout."""
    if file == "-":
        emit_json(document)
        return
    from gavotte.formats.files.reading import write_text

    write_text(file, json_text(document))
    note(f"wrote {file}")


def _span(wall: WallTime) -> str:
    return f"{wall.predicted_s:.3g} s ({wall.low_s:.3g} to {wall.high_s:.3g})"


def _announce(plan: LaunchPlan) -> None:
    """Print what is about to be started."""
    kept = "in the order placed for its messages" if plan.placed else f"in the order of {plan.launcher.title}"
    note(f"job {plan.job.key}: {plan.size}, {kept}")
    if plan.verdict:
        note(plan.verdict)
    if plan.computing:
        note(plan.computing)
    if plan.tuned is not None and plan.tuned.key:
        note(plan.tuned.verdict)
    if plan.wall is not None:
        default = (
            "" if plan.default_wall is None or not (plan.placed or plan.tuned) else f", else {_span(plan.default_wall)}"
        )
        note(f"predicted wall time: {_span(plan.wall)}{default}")


def _report(run: Launched) -> None:
    """Print how a run ended."""
    failed = f", exit status {run.status}" if run.status else ""
    counted = "; the next run will be placed by its messages" if run.kept else ""
    note(f"job {run.plan.job.key}: {run.wall_s:.3g} s{failed}{counted}")


def _show(plan: LaunchPlan) -> None:
    """Print a plan on stdout."""
    print(plan.shown)
    print(f"order: {' '.join(plan.hosts)}")
    print(f"own order of {plan.launcher.title}: {' '.join(plan.default)}")
    if plan.order is None:
        unknown = "the messages are" if plan.app is None else "the network is"
        print(f"{unknown} unknown, so the launcher's own order stays")
    else:
        print(plan.verdict)
    if plan.computing:
        print(plan.computing)
    if plan.tuned is not None:
        print(plan.tuned.verdict)
    if plan.wall is None:
        print("wall time: unknown until the job has run once")
    else:
        default = "" if plan.default_wall is None else f", in its own order {_span(plan.default_wall)}"
        print(f"predicted wall time: {_span(plan.wall)}{default}")


def _explained(plan: LaunchPlan) -> list[str]:
    """Return lines about the collectives: which won, and by how much for each operation and size."""
    if plan.self_tuned:
        return ["collectives: the preloaded library tunes them while the job runs"]
    if plan.question.self_tuning:
        return [f"collectives: not tuned while the job runs, since {plan.hindrance}"]
    if plan.tuned is None:
        return [f"collectives: the MPI library's own choices, since {plan.untuned}"]
    from gavotte.cli.tuning import choice_line

    choices = [(tuning, each) for tuning in plan.tuned.tunings for each in tuning.choices]
    return [plan.tuned.verdict, *(f"  {choice_line(tuning, each)}" for tuning, each in choices)]


def _list(store: str | None, file: str | None) -> None:
    """List earlier launches."""
    from gavotte.launch import Shelf

    records = Shelf(store, lambda text: warn([text]), create=False).runs()
    if file is not None:
        _write(file, {"runs": [_document(each) for each in records]})
        return
    if not records:
        note("no launches yet")
        return
    columns = [
        "job",
        "started",
        "ranks",
        "wall s",
        "predicted s",
        "own order s",
        "order",
        "collectives",
        "status",
        "command",
    ]
    emit_table(columns, [_row(each) for each in records], words=("started", "order", "collectives", "command"))


def _document(record: Record) -> dict[str, Any]:
    """Return a Record of a launch as `--history --json` prints it."""
    labels = dict(record.labels)
    order = str(labels.pop("order", "")).split(",")
    return {"time_s": record.time_s, "wall_s": record.value, "order": order} | labels


def _row(record: Record) -> list[str]:
    labels = record.labels

    def seconds(key: str) -> str:
        value = labels.get(key)
        return f"{value:.3g}" if isinstance(value, int | float) else "-"

    low, high = seconds("low_s"), seconds("high_s")
    predicted = f"{seconds('predicted_s')} ({low} to {high})" if labels.get("predicted_s") is not None else "-"
    started = datetime.fromtimestamp(record.time_s, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    return [
        str(labels.get("job", "-")),
        started,
        str(labels.get("ranks", "-")),
        f"{record.value:.3g}",
        predicted,
        seconds("default_predicted_s"),
        "placed" if labels.get("placed") else "own",
        "set" if labels.get("settings") else "own",
        str(labels.get("status", "-")),
        str(labels.get("command", "-")),
    ]
