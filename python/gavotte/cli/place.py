"""`gavotte place`: make a Placement from a Network and Apps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.elapsed import elapsed_s
from gavotte.cli.networks import with_inventory_at
from gavotte.cli.options import AppFiles, Json, NetworkFile, PlacementOutput, Seed, Threads
from gavotte.cli.output import emit_json, note, unknown_pairs, warn
from gavotte.cli.progress import searching
from gavotte.cli.signals import leave, stop_flag
from gavotte.cli.writing import to_write
from gavotte.errors import GavotteError

if TYPE_CHECKING:
    from gavotte.formats.app import App
    from gavotte.formats.guarantee import Guarantee
    from gavotte.formats.network import Network
    from gavotte.formats.placement import Placement
    from gavotte.place import Answer, Effort, Forecast, Front, Goal, Question, Quota, Running

_HURRY_S = 0.02
_HURRY_SHARE = 0.5
"""Expected time of comparing with blind placements from which on it may be left out, and the share of this time that
must be left for it."""


@dataclass(frozen=True)
class EffortOptions:
    """How hard to try."""

    method: str = option("Method of placing. greedy is Choreo's.", default="auto")
    time_limit: float = option(
        "Wall-clock time for the whole command, from its start (auto, optimal, ilp and search).",
        "SECONDS",
        default=10.0,
        min=0.01,
        max=1e6,
    )
    repeatable: bool = option(
        "Count --time-limit in steps of work instead of seconds. Equal input, seed and limit then give equal "
        "answers on any machine.",
        default=False,
    )
    threads: Threads = None
    seed: Seed = 0


@dataclass(frozen=True)
class GoalOptions:
    """What to minimise."""

    goal: str = option(
        "What to minimise. latency is between tasks that exchange bytes. All but time may add some time; see --within.",
        default="time",
    )
    within: float = option(
        "Share of the completion time that a goal other than time may add: 0.05 = 5 %.", "SHARE", default=0.05, min=0
    )
    front: int | None = option(
        "List up to N placements between the fastest and the best for --goal, none worse than another in both.",
        "N",
        min=2,
        max=100,
    )


@dataclass(frozen=True)
class QuestionOptions:
    """The rules that the placement must keep."""

    sharing: str | None = option("Links that transfers share. By default the Network's own.")
    only: list[str] | None = option(
        "Place these tasks on these hosts only. TASKS may be a pattern: map-*", "TASKS=HOST,HOST"
    )
    label: list[str] | None = option("Place these tasks only on hosts with this label.", "TASKS=KEY:VALUE")
    hosts: Path | None = option(
        "Inventory with labels, resources, core speeds and storage of the hosts, which a measured Network lacks.",
        "FILE.hosts.toml",
    )
    running: list[str] | None = option(
        "Placements and Apps that already run; their traffic counts.", "P.placement.json:A.app.toml,..."
    )
    robust: bool = option("Plan with the lower end of each rate's interval.", default=False)
    max_hosts: int | None = option("Use at most this many hosts.", "N", min=1)
    max_price: float | None = option("Spend at most this much on hosts and bytes.", "USD", min=0)
    guarantee: Path | None = option(
        "Bandwidth guarantees of tasks; `host` names a task. No link is promised more than it can guarantee.",
        "G.guarantee.toml",
    )
    trace: Path | None = option(
        "Trace of the job: rank r is the r-th task. After a search by bytes, a search on the job's replayed "
        "time gets the rest of --time-limit. By default the App's own trace, with --method auto.",
        "JOB.trace",
    )
    bytes_only: bool = option("Ignore the App's own trace.", default=False)
    state: str | None = option(
        "State to send when a task without its own `state_bytes` moves between phases; memory = its "
        "memory_bytes. Without this option such tasks do not move.",
        "SIZE",
    )


@dataclass(frozen=True)
class ReportOptions:
    """What to estimate and to print about the placement."""

    rate_error: float = option(
        "Relative error of a measured rate, used to judge whether the gain is real.",
        "SHARE",
        default=0.09,
        min=0,
        max=0.99,
    )
    least_saving: float = option(
        "Report that placing is not worth it if it saves less than this.", "SECONDS", default=0.1, min=0, max=1e9
    )
    ran: Path | None = option(
        "With --took: predict the run time from a past run under this placement.", "P.placement.json"
    )
    took: list[float] | None = option("Run time that was measured under --ran. May be repeated.", "SECONDS", min=0.001)
    computing: float | None = option(
        "With --ran: seconds of that run in which the busiest task computed. Narrows the prediction.", "SECONDS", min=0
    )
    explain: bool = option("Show what limits the completion time, and the next-best placement.", default=False)


@dataclass(frozen=True)
class OutputOptions:
    """Where to write what."""

    hosts_guarantee: Annotated[
        Path | None,
        to_write(
            "With --guarantee: write each host's guarantee, for `gavotte guarantee apply`.",
            "H.guarantee.toml",
            "--hosts-guarantee",
        ),
    ] = None
    untimed: bool = option("Write elapsed_s as 0, so that equal runs write equal files.", default=False)
    output: PlacementOutput = None
    as_json: Json = False


@declared
def place(
    network: NetworkFile,
    apps: AppFiles,
    trying: EffortOptions,
    aim: GoalOptions,
    asked: QuestionOptions,
    reporting: ReportOptions,
    writing: OutputOptions,
) -> None:
    """Decide which task runs on which host, so that the application finishes soonest."""
    from gavotte._core import policies
    from gavotte.cli.placement import Report
    from gavotte.formats.app import read_app
    from gavotte.formats.files.reading import check_ending
    from gavotte.formats.network import read_network
    from gavotte.place import INTERRUPTED_TEXT, Effort, Goal, after_s, decide

    if writing.output is not None:
        check_ending(writing.output, "a Placement")
    _check_together(asked, aim, reporting, writing)
    goal = Goal(aim.goal, aim.within)
    begin_s = time.perf_counter()
    net, loaded = with_inventory_at(read_network(network), asked.hosts), [read_app(app) for app in apps]
    reading_s = time.perf_counter() - begin_s
    wanted = _guarantee(asked.guarantee)
    question = _question(net, loaded, asked, wanted, moving=not _least_time_only(asked, aim, reporting))
    warnings = [*unknown_pairs(net), *question.warnings]
    warn(warnings)
    question = _with_job(question, apps, asked, trying, automatic=_replays_alone(asked, aim, reporting))
    kept_s = after_s(loaded, trying.time_limit, reading_s)
    with searching(trying.time_limit, bound_of=trying.method if trying.method in policies() else None) as watch:
        effort = Effort(
            trying.method,
            trying.time_limit,
            trying.seed,
            trying.threads,
            repeatable=trying.repeatable,
            spent_s=elapsed_s(),
            kept_s=kept_s,
            watch=watch,
        )
        points = None if aim.front is None else _front(question, effort, goal, aim.front)
        answer = decide(question, effort, goal) if points is None else points.within(goal.within)
    # From here on a signal only sets a flag: the placement is written and printed.
    with nullcontext(Event()) if answer.interrupted else stop_flag() as late:
        placement = answer.placement.model_copy(update={"elapsed_s": 0.0} if writing.untimed else {})
        _write(placement, wanted, writing)
        late_s = trying.time_limit - _HURRY_SHARE * kept_s
        hurry = kept_s >= _HURRY_S and elapsed_s() > late_s and not trying.repeatable
        report = Report(
            answer,
            placement,
            answer.interrupted or late.is_set(),
            [*warnings, *answer.warnings],
            None if hurry else answer.worth(rate_error=reporting.rate_error, least_saving_s=reporting.least_saving),
            _forecast(answer, reporting),
            reporting.least_saving,
            answer.explanation if reporting.explain and not placement.moves else None,
            points,
        )
        if reporting.explain and placement.moves:
            note("--explain works only for placements without moves")
        if hurry:
            note("no time is left to compare with placing blindly; use a longer --time-limit")
        for line in answer.warnings if not late.is_set() else [INTERRUPTED_TEXT]:
            note(line)
        if report.worth is not None and not report.worth.worthwhile:
            unknown = "" if report.verdict else report.worth.unknown
            note("; ".join(each for each in (report.worth.reason, unknown) if each))
        if writing.as_json:
            emit_json(report.document())
        else:
            report.emit(goal.kind)
            if writing.output is not None:
                note(f"wrote {writing.output}")
    leave(answer.interrupted or late.is_set())


def _front(question: Question, effort: Effort, goal: Goal, size: int) -> Front:
    """Return placements from the fastest to the best for the goal. Only `--front` loads what finds them."""
    from gavotte.place import front

    return front(question, effort.remaining, goal.kind, size)


def _replays_alone(asked: QuestionOptions, aim: GoalOptions, reporting: ReportOptions) -> bool:
    """Return whether the options ask for nothing that a replay cannot keep, so that an App's own trace counts."""
    moving = asked.state is not None and not _least_time_only(asked, aim, reporting)
    return aim.goal == "time" and not (asked.running or asked.bytes_only or moving)


def _with_job(
    question: Question, paths: Sequence[Path], asked: QuestionOptions, trying: EffortOptions, *, automatic: bool
) -> Question:
    """Return the question with the job whose replayed time decides, if there is one."""
    if len(paths) != 1:
        if asked.trace is not None:
            raise typer.BadParameter("--trace is of one job; place one App at a time")
        return question
    from gavotte.cli.traces import job_of

    network = question.network
    if asked.sharing is not None:
        network = network.model_copy(update={"sharing": question.shared})
    own = paths[0] if automatic and trying.method == "auto" else None
    job = job_of(network, question.apps[0], asked.trace, own, seed=trying.seed)
    # Tasks move between phases only if a trace does not decide.
    return question if job is None else replace(question, job=job, state_bytes={})


def _guarantee(path: Path | None) -> Guarantee | None:
    """Return the guarantees of a file; None without one."""
    if path is None:
        return None
    from gavotte.formats.guarantee import read_guarantee

    return read_guarantee(path)


def _least_time_only(asked: QuestionOptions, aim: GoalOptions, reporting: ReportOptions) -> bool:
    """Return whether the options allow only placements without moves between phases."""
    limited = asked.max_hosts is not None or asked.max_price is not None or asked.guarantee is not None
    return aim.goal != "time" or bool(asked.running) or reporting.ran is not None or limited


def _check_together(asked: QuestionOptions, aim: GoalOptions, reporting: ReportOptions, writing: OutputOptions) -> None:
    """Refuse options that need or exclude each other."""
    if (reporting.ran is None) != (not reporting.took):
        raise typer.BadParameter("--ran and --took need each other")
    if reporting.computing is not None and reporting.ran is None:
        raise typer.BadParameter("--computing needs --ran and --took")
    if asked.state is not None and _least_time_only(asked, aim, reporting):
        raise typer.BadParameter("--state is for the least time alone: no other goal, limits, --running or --ran")
    if asked.trace is not None and (aim.goal != "time" or asked.running or asked.state is not None):
        raise typer.BadParameter("--trace is for the least time alone: no other goal, --running or --state")
    if asked.trace is not None and asked.bytes_only:
        raise typer.BadParameter("use either --trace or --bytes-only")
    if aim.front is not None and aim.goal == "time":
        raise typer.BadParameter("--front needs --goal hosts, price or latency")
    if writing.hosts_guarantee is not None and asked.guarantee is None:
        raise typer.BadParameter("--hosts-guarantee needs --guarantee")


def _question(
    network: Network, apps: list[App], asked: QuestionOptions, wanted: Guarantee | None, *, moving: bool
) -> Question:
    """Return the question that the options ask."""
    from gavotte.place import PlacementLimits, Question, select_hosts

    if asked.robust:
        from gavotte.place import worst_case

        network = worst_case(network)
    only = [_split(text, "=", "--only") for text in asked.only or ()]
    labels = [_split(text, "=", "--label") for text in asked.label or ()]
    return Question(
        network,
        apps,
        asked.sharing,
        allowed=select_hosts(
            network,
            apps,
            only=[(tasks, hosts.split(",")) for tasks, hosts in only],
            labels=[(tasks, *_split(label, ":", "--label")) for tasks, label in labels],
        ),
        running=[_running(text) for text in asked.running or ()],
        limits=PlacementLimits(asked.max_hosts, asked.max_price, quotas=_quotas(wanted, network, apps)),
        state_bytes=_states(apps, asked.state) if moving else {},
    )


def _write(placement: Placement, wanted: Guarantee | None, writing: OutputOptions) -> None:
    """Write the Placement, and the guarantees of the hosts, to the files that the options name."""
    if writing.output is not None:
        from gavotte.formats.placement import write_placement

        write_placement(writing.output, placement)
    if wanted is not None and writing.hosts_guarantee is not None:
        # Guarantees load what speaks to agents, which takes longer than the rest of the start.
        from gavotte.formats.guarantee import write_guarantee
        from gavotte.guarantee import on_hosts

        write_guarantee(writing.hosts_guarantee, on_hosts(wanted, placement.assignment))


def _forecast(answer: Answer, reporting: ReportOptions) -> Forecast | None:
    """Return the predicted run time if the options give a past run."""
    if reporting.ran is None:
        return None
    from gavotte.formats.placement import read_placement

    before = read_placement(reporting.ran)
    before.check_stays("a forecast")
    return answer.forecast(
        before.assignment,
        reporting.took or (),
        computing_s=reporting.computing,
        rate_error=reporting.rate_error,
    )


def _quotas(wanted: Guarantee | None, network: Network, apps: Sequence[App]) -> tuple[Quota, ...]:
    """Return what each link can guarantee, as bounds on the placement."""
    if wanted is None:
        return ()
    from gavotte.guarantee import rooms
    from gavotte.place import Quota, task_keys

    links = rooms(wanted, network, list(task_keys(apps)))
    return tuple(Quota(each.link, each.hosts, each.needs_bps, each.most_bps, each.sends) for each in links)


def _states(apps: Sequence[App], text: str | None) -> dict[str, int]:
    """Return the bytes of state that move with each task."""
    from gavotte.formats.parts.rate_fields import parse_size
    from gavotte.place import states

    try:
        return states(apps, text if text in (None, "memory") else parse_size(text))
    except ValueError as error:
        raise GavotteError(f"--state: {error}", hint="use e.g. 64mb, or memory") from None


def _split(text: str, mark: str, option: str) -> tuple[str, str]:
    left, separator, right = text.partition(mark)
    if not (left and separator and right):
        shape = {"--only": "TASKS=HOST,HOST", "--label": "TASKS=KEY:VALUE", "--running": "PLACEMENT:APP,APP"}[option]
        raise GavotteError(f"{option}: cannot read `{text}`", hint=f"use {shape}")
    return left, right


def _running(text: str) -> Running:
    from gavotte.formats.app import read_app
    from gavotte.formats.placement import read_placement
    from gavotte.place import Running
    from gavotte.terms.unfolding import unfold

    placement, apps = _split(text, ":", "--running")
    return Running(*unfold([read_app(app) for app in apps.split(",")], read_placement(placement)))
