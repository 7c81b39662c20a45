"""`gavotte place`: Network and Apps to Placement."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.options import AppFiles, Json, NetworkFile, PlacementOutput, Seed, Threads
from gavotte.cli.output import emit_json, emit_table, note, searching, unknown_pairs
from gavotte.cli.signals import stop_flag
from gavotte.errors import GavotteError
from gavotte.formats.counting import counted
from gavotte.formats.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.formats.app import App
    from gavotte.formats.guarantee import Guarantee
    from gavotte.formats.network import Network
    from gavotte.formats.placement import Placement
    from gavotte.place import Answer, Explanation, Quota, Running

USELESS_GAP = 0.95
"""A bound below a twentieth of the time found says nothing."""

INTERRUPTED = 130
"""Exit status after Ctrl-C: the best placement found until then is told and written all the same."""

_SHOWN = 12
"""Rows of each table of an explanation."""


def place(
    network: NetworkFile,
    apps: AppFiles,
    method: Annotated[
        str,
        typer.Option(
            "--method", help="auto, optimal, ilp, search, greedy (Choreo's), random, round-robin or min-machines."
        ),
    ] = "auto",
    sharing: Annotated[
        str | None, typer.Option("--sharing", help="hose, pipe or groups. By default as the Network says.")
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit",
            help="Time by the clock, for all of auto, optimal, ilp or search.",
            min=0.01,
            max=1e6,
            metavar="SECONDS",
        ),
    ] = 10.0,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Place these tasks on these hosts only. TASKS may be a pattern: map-*",
            metavar="TASKS=HOST,HOST",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="Place these tasks only on hosts with this label.", metavar="TASKS=KEY:VALUE"),
    ] = None,
    running: Annotated[
        list[str] | None,
        typer.Option(
            "--running", help="Applications that already run, and where.", metavar="P.placement.json:A.app.toml,..."
        ),
    ] = None,
    rate_error: Annotated[
        float,
        typer.Option(
            "--rate-error",
            help="Relative error of a measured rate, to judge the gain by.",
            min=0,
            max=0.99,
            metavar="SHARE",
        ),
    ] = 0.09,
    least_saving: Annotated[
        float,
        typer.Option(
            "--least-saving",
            help="Say that placing is not worth it if it saves less than this.",
            min=0,
            max=1e9,
            metavar="SECONDS",
        ),
    ] = 0.1,
    ran: Annotated[
        Path | None,
        typer.Option(
            "--ran",
            help="With --took: foretell what the applications take that ran under this placement.",
            metavar="P.placement.json",
        ),
    ] = None,
    took: Annotated[
        list[float] | None,
        typer.Option("--took", help="So long a run took there. May be repeated.", min=0.001, metavar="SECONDS"),
    ] = None,
    robust: Annotated[bool, typer.Option("--robust", help="Plan with the lower end of each rate's interval.")] = False,
    max_hosts: Annotated[
        int | None, typer.Option("--max-hosts", help="Use at most so many hosts.", min=1, metavar="N")
    ] = None,
    max_price: Annotated[
        float | None,
        typer.Option("--max-price", help="Spend at most so much on hosts and bytes.", min=0, metavar="USD"),
    ] = None,
    guarantee: Annotated[
        Path | None,
        typer.Option(
            "--guarantee",
            help="Bandwidth that tasks are to have; `host` names a task. No link gets more than it can guarantee.",
            metavar="G.guarantee.toml",
        ),
    ] = None,
    hosts_guarantee: Annotated[
        Path | None,
        typer.Option(
            "--hosts-guarantee",
            help="With --guarantee: write what each host is to have, for `gavotte guarantee apply`.",
            metavar="H.guarantee.toml",
        ),
    ] = None,
    goal: Annotated[
        str,
        typer.Option(
            "--goal",
            help="time, hosts (the fewest), price (the lowest) or latency (the least between tasks that exchange "
            "bytes); all but time may cost some time, see --within.",
        ),
    ] = "time",
    within: Annotated[
        float,
        typer.Option("--within", help="Time that another goal may add: 0.05 = 5 %.", min=0, metavar="SHARE"),
    ] = 0.05,
    repeatable: Annotated[
        bool,
        typer.Option(
            "--repeatable",
            help="Take --time-limit for an amount of work, counted in steps: equal input, seed and limit then give "
            "equal answers on any machine, however long that takes there.",
        ),
    ] = False,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            help="Let tasks without `state_bytes` of their own move between phases too, with this much state to send; "
            "memory = their memory_bytes.",
            metavar="SIZE",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what limits the completion time, and the next-best placement.")
    ] = False,
    untimed: Annotated[
        bool, typer.Option("--untimed", help="Write 0 for elapsed_s, so that equal runs write equal files.")
    ] = False,
    threads: Threads = None,
    output: PlacementOutput = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Decide which task runs on which host, so that the application finishes soonest."""
    from gavotte._core import policies
    from gavotte.formats.app import read_app
    from gavotte.formats.guarantee import read_guarantee, write_guarantee
    from gavotte.formats.network import read_network
    from gavotte.formats.placement import read_placement, write_placement
    from gavotte.formats.reading import check_ending
    from gavotte.guarantee import on_hosts
    from gavotte.place import (
        PlacementLimits,
        decide,
        decide_phases,
        forecast,
        latency_s,
        select_hosts,
        spend,
        twice_counted,
        worst_case,
        worth,
    )
    from gavotte.place import explain as reason
    from gavotte.terms.unfolding import unfold

    if output is not None:
        check_ending(output, "a Placement")
    if (ran is None) != (not took):
        raise typer.BadParameter("--ran and --took go together")
    bound_as_one = goal != "time" or running or ran or guarantee or max_hosts or max_price is not None
    if state is not None and bound_as_one:
        raise typer.BadParameter("--state is for the least time alone: no other goal, limits, --running or --ran")
    net, loaded = read_network(network), [read_app(app) for app in apps]
    warnings = unknown_pairs(net)
    net = worst_case(net) if robust else net
    there = [_running(text) for text in running or ()]
    warnings += [
        f"what `{name}` sends is counted beside the cross traffic; if it ran while that was measured, "
        f"measure with --beside {name}"
        for name in twice_counted(net, there)
    ]
    for warning in warnings:
        note(f"warning: {warning}")
    allowed = select_hosts(
        net,
        loaded,
        only=[(tasks, hosts.split(",")) for tasks, hosts in (_split(text, "=", "--only") for text in only or ())],
        labels=[
            (tasks, *_split(rest, ":", "--label")) for tasks, rest in (_split(t, "=", "--label") for t in label or ())
        ],
    )

    if hosts_guarantee is not None and guarantee is None:
        raise typer.BadParameter("--hosts-guarantee needs --guarantee")
    wanted = None if guarantee is None else read_guarantee(guarantee)
    moving = {} if bound_as_one else _states(loaded, state)
    with searching(time_limit) as watch:

        def under(limits: PlacementLimits, limit_s: float) -> Answer:
            if moving:
                return decide_phases(
                    net,
                    loaded,
                    moving,
                    method,
                    sharing=sharing,
                    seed=seed,
                    time_limit_s=limit_s,
                    allowed=allowed,
                    threads=threads,
                    repeatable=repeatable,
                    watch=watch,
                )
            return decide(
                net,
                loaded,
                method,
                sharing=sharing,
                seed=seed,
                time_limit_s=limit_s,
                allowed=allowed,
                running=there,
                threads=threads,
                limits=limits,
                repeatable=repeatable,
                watch=watch,
            )

        limited = PlacementLimits(max_hosts, max_price, quotas=_quotas(wanted, net, loaded))
        answer = spend(net, loaded, goal, within, under, limited, limit_s=time_limit, repeatable=repeatable)
    # What is found is told and written, whatever signal comes from here on. One that came before has done its part.
    with nullcontext(threading.Event()) if answer.interrupted else stop_flag() as late:
        result = answer.placement.model_copy(update={"elapsed_s": 0.0} if untimed else {})
        if output is not None:
            write_placement(output, result)
        apps_there, there_all = unfold(loaded, result)
        gain = None
        if not there and not result.moves and not answer.interrupted:
            gain = worth(
                net, loaded, result, sharing=sharing, rate_error=rate_error, least_saving_s=least_saving, seed=seed
            )
        foretold = None
        if ran is not None:
            before = read_placement(ran)
            before.check_stays("a forecast")
            foretold = forecast(
                net,
                loaded,
                before.assignment,
                result.assignment,
                took or (),
                sharing=sharing,
                rate_error=rate_error,
                seed=seed,
            )
        explanation = None
        if explain and result.moves:
            note("only placements without moves are explained")
        elif explain:
            explanation = reason(
                net, loaded, result, sharing=sharing, running=there, allowed=allowed, limits=answer.limits
            )
        if wanted is not None and hosts_guarantee is not None:
            write_guarantee(hosts_guarantee, on_hosts(wanted, result.assignment))
        if answer.interrupted or late.is_set():
            note("interrupted: this is the best placement found until then")
        elif answer.stopped and answer.chosen in policies():
            note("the bound ran out of time, so another run may prove another one; use a longer --time-limit")
        elif answer.stopped:
            note("the search ran out of time, so another run may find another placement; use a longer --time-limit")
        if gain is not None and not gain.worthwhile:
            note(gain.reason)
        if as_json:
            extra = {
                "gap": answer.gap,
                "chosen": answer.chosen,
                "stopped": answer.stopped,
                "bound_stopped": answer.bound_stopped,
                "interrupted": answer.interrupted or late.is_set(),
            }
            extra |= {"hosts_used": len(set(there_all.assignment.values())), "price_usd": answer.price_usd}
            extra |= {"latency_s": latency_s(net, apps_there, there_all.assignment), "unmoved_s": answer.unmoved_s}
            extra |= {"warnings": warnings, "worth": None if gain is None else asdict(gain)}
            extra |= {} if foretold is None else {"forecast": asdict(foretold)}
            extra |= {} if explanation is None else {"explanation": asdict(explanation)}
            emit_json(result.model_dump(mode="json") | extra)
            return _leave(answer.interrupted or late.is_set())
        by_host: dict[str, list[str]] = {}
        for task, host in result.assignment.items():
            by_host.setdefault(host, []).append(task)
        emit_table(
            ["host", "tasks"], [[host, " ".join(tasks)] for host, tasks in sorted(by_host.items())], words=["tasks"]
        )
        if result.moves:
            _emit_moves(result)
        if explanation is not None:
            _emit_explanation(explanation)
        if result.optimal:
            proof = "proven optimal"
        elif answer.gap > USELESS_GAP:
            proof = "no useful bound"
        else:
            proof = f"at least {result.bound_s:.3g} s, gap {answer.gap:.1%}"
        chosen = result.method if answer.chosen == result.method else f"{result.method} ({answer.chosen})"
        if result.method == "optimal" and not result.optimal:
            chosen = "not proven optimal, the best found"
        note(f"{chosen}: predicted {result.completion_s:.3g} s ({proof}), seed {result.seed}")
        note(f"bottleneck: {result.bottleneck}")
        if answer.unmoved_s is not None:
            saved_s = answer.unmoved_s - result.completion_s
            said = f"save {saved_s:.3g} s of {answer.unmoved_s:.3g} s" if result.moves else "save less than they cost"
            note(f"moves between phases {said}")
        if goal != "time" or answer.price_usd:
            price = f", {answer.price_usd:.4g} USD" if answer.price_usd else ""
            note(f"{counted(len(set(there_all.assignment.values())), 'host')}{price}")
        if goal == "latency":
            note(f"latency: {latency_s(net, apps_there, there_all.assignment):.3g} s")
        if gain is not None and gain.worthwhile:
            note(gain.reason)
        if foretold is not None:
            note(foretold.reason)
        if output is not None:
            note(f"wrote {output}")
    return _leave(answer.interrupted or late.is_set())


def _leave(interrupted: bool) -> None:
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _quotas(wanted: Guarantee | None, network: Network, apps: Sequence[App]) -> tuple[Quota, ...]:
    """What links have for guarantees of tasks, as bounds on the placement."""
    from gavotte.guarantee import rooms
    from gavotte.place import Quota, task_keys

    if wanted is None:
        return ()
    found = rooms(wanted, network, list(task_keys(apps)))
    return tuple(Quota(each.link, each.hosts, each.needs_bps, each.most_bps, each.sends) for each in found)


def _states(apps: Sequence[App], text: str | None) -> dict[str, int]:
    """What goes with each task that may move."""
    from gavotte.formats.rates import parse_size
    from gavotte.place import states

    try:
        return states(apps, text if text in (None, "memory") else parse_size(text))
    except ValueError as error:
        raise GavotteError(f"--state: {error}", hint="use e.g. 64mb, or memory") from None


def _emit_moves(found: Placement) -> None:
    """A table of the tasks that change their hosts."""
    at = dict(found.assignment)
    rows = []
    for move in found.moves:
        rows.append([str(move.phase), move.task, at[move.task], move.host, format_bytes(move.bytes)])
        at[move.task] = move.host
    emit_table(["before phase", "task", "from", "to", "state"], rows, title="\nmoves", words=["task", "from", "to"])


def _emit_explanation(found: Explanation) -> None:
    """Tables of what is on the bottleneck and how idle the rest is, then the runner-up."""
    if found.crossing:
        emit_table(
            ["transfer", "from", "to", "bytes", "share"],
            [
                [
                    f"{row.source} to {row.target}",
                    row.source_host,
                    row.target_host,
                    format_bytes(row.bytes),
                    f"{row.share:.0%}",
                ]
                for row in found.crossing[:_SHOWN]
            ],
            title=f"\non the bottleneck, {found.bottleneck}{_more(found.crossing)}",
            words=["from", "to"],
        )
    if found.links:
        emit_table(
            ["link", "phase", "bytes", "of others", "rate", "s", "slack s"],
            [
                [
                    row.link,
                    str(row.phase),
                    format_bytes(row.bytes),
                    format_bytes(row.load_bytes) if row.load_bytes else "",
                    format_rate(row.rate_bps),
                    f"{row.seconds:.3g}",
                    f"{row.slack_s:.3g}",
                ]
                for row in found.links[:_SHOWN]
            ],
            title=f"\nlinks in use, slowest first{_more(found.links)}",
        )
    other = found.runner_up
    if other is None:
        note("no single relocation relieves the bottleneck")
        return
    moves = ", ".join(f"{task} from {source} to {target}" for task, source, target in other.moves)
    change = f"saves {other.gain_s:.3g} s" if other.gain_s > 0 else f"costs {abs(other.gain_s):.3g} s"
    note(f"next-best: {moves}, which {change} ({other.completion_s:.3g} s)")


def _more(rows: Sequence[object]) -> str:
    return f" ({_SHOWN} of {len(rows)})" if len(rows) > _SHOWN else ""


def _split(text: str, mark: str, option: str) -> tuple[str, str]:
    left, found, right = text.partition(mark)
    if not (left and found and right):
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
