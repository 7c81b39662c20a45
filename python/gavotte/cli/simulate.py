"""`gavotte simulate`: predict finish times of flows, or of a Placement, by the fluid model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json, Seed
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import progress
from gavotte.cli.writing import to_write
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.formats.app import App
    from gavotte.formats.network import Network
    from gavotte.formats.placement import Placement
    from gavotte.formats.topology import Topology
    from gavotte.simulate import Conditions, LinkUse, Simulation

SHOWN_LINKS = 10


@dataclass(frozen=True)
class QuestionOptions:
    """What to simulate, and under which conditions."""

    network: Path | None = option(
        "Simulate a Placement and its Apps on this Network, instead of a list of flows.", "N.network.json"
    )
    trace: Path | None = option(
        "With --network: replay this trace of the App's job under the Placement. Rank r is the App's r-th task.",
        "JOB.trace",
    )
    goodput: bool | None = option(
        "Count bytes as TCP payload, 1448/1514 of what a Topology's rates carry (default), or as wire bytes.",
        None,
        "--goodput/--wire",
        show_default=False,
    )
    alpha_s: float = option("Latency before each flow starts.", "SECONDS", "--alpha", default=0.0, min=0)
    tcp: bool = option("Share as TCP does, with less for flows that pass more full queues.", default=False)
    poisson: list[str] | None = option(
        "Background flows that arrive at random. * stands for each host. May be repeated.",
        "SOURCE:TARGET:PER_S:SIZE[:CAP]",
    )
    on_off: list[str] | None = option(
        "A background flow that comes and goes, with these mean times. May be repeated.",
        "SOURCE:TARGET:ON_S:OFF_S[:CAP]",
    )
    guarantee: Path | None = option(
        "Simulate agents that keep this Guarantee, with TCP windows and queues that mark and drop.", "G.guarantee.toml"
    )
    protection: str | None = option(
        "With --guarantee: auto, ecn or loss (the mode of the Guarantee by default), elasticswitch-ecn or "
        "elasticswitch-loss as in the paper, static, seawall, or none.",
        "NAME",
    )
    marks: bool | None = option(
        "With --guarantee: whether switches mark packets. By default they do if the protection relies on marks.",
        "--marks/--no-marks",
        default=None,
    )
    queue_s: float | None = option(
        "With --guarantee: capacity of the queue before a link, in seconds of its rate, 0.004 by default.",
        "SECONDS",
        "--queue",
        min=0,
    )
    until_s: float = option("Stop at this time even if flows are left.", "SECONDS", "--until", default=math.inf, min=0)
    accuracy: float = option(
        "Allowed relative error of rates, 0.01 = 1 %. Much faster if thousands of links are full.",
        "SHARE",
        default=0.0,
        min=0,
        max=0.1,
    )


@declared
def simulate(
    first: Annotated[
        Path, typer.Argument(help="A Topology or a Network. With --network, a Placement.", metavar="TOPOLOGY")
    ],
    rest: Annotated[
        list[Path],
        typer.Argument(help="The list of flows. With --network, the Apps that were placed.", metavar="FLOWS.csv"),
    ],
    *,
    output: Annotated[Path | None, to_write("Write the finish times to this file.", "FINISH.csv")] = None,
    asked: QuestionOptions,
    links: int = option("Number of links to show, the busiest first.", "N", default=SHOWN_LINKS, min=0),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Predict when flows finish on a network that they share max-min fairly."""
    from gavotte.formats.network import Network
    from gavotte.simulate import read_platform, write_finish

    _check_together(first, rest, asked)
    platform = read_platform(asked.network or first)
    if isinstance(platform, Network):
        if asked.goodput is False:
            raise typer.BadParameter("--wire needs a Topology: a Network's rates are goodput")
        warn(unknown_pairs(platform))
    run = _flows if asked.guarantee is None else _guarded
    if asked.network is not None:
        run = partial(_placement, first)
    ids, done, extra = run(platform, rest, asked, _conditions(platform, asked, seed))
    warn(done.warnings)
    if output is not None:
        write_finish(output, ids, done.finish_s[: len(ids)])
    summary = _summary(done, ids) | extra
    fullest = sorted(done.links, key=lambda link: (-link.utilisation, link.name))
    if as_json:
        emit_json(summary | {"links": [_link(each) for each in fullest]})
        return
    if links and fullest:
        columns = ["link", "rate", "carried", "mean use", "full for"]
        emit_table(columns, [_row(each) for each in fullest[:links]])
    if "guarantee" in summary:
        _tell_guarantee(summary["guarantee"], links)
    if len(fullest) > links:
        note(f"showing the busiest {links} of {len(fullest)} links")
    _show(summary)
    if output is not None:
        note(f"wrote {output}")


def _check_together(first: Path, rest: list[Path], asked: QuestionOptions) -> None:
    """Refuse options that need or exclude each other."""
    guarded = asked.guarantee is not None
    if asked.network is None and first.name.endswith(".placement.json"):
        raise typer.BadParameter("a Placement needs the Network that it was made for; use --network")
    if asked.network is None and len(rest) != 1:
        raise typer.BadParameter("use one list of flows; only a Placement, with --network, takes several files")
    if asked.trace is not None and (asked.network is None or len(rest) != 1):
        raise typer.BadParameter("--trace needs --network, and the App of one job")
    if not guarded and asked.protection is not None:
        raise typer.BadParameter("--protection needs --guarantee")
    if not guarded and (asked.marks is not None or asked.queue_s is not None):
        raise typer.BadParameter("--marks and --queue need --guarantee")
    if asked.accuracy and (guarded or asked.network is not None):
        raise typer.BadParameter("--accuracy is for lists of flows without guarantees")
    if guarded and (asked.network is not None or asked.tcp or asked.poisson or asked.on_off):
        raise typer.BadParameter("--guarantee simulates a list of flows with TCP; leave out the other options")


def _conditions(platform: Topology | Network, asked: QuestionOptions, seed: int) -> Conditions:
    """Return the conditions that the options ask for."""
    from gavotte.formats.network import Network
    from gavotte.simulate import Conditions, host_names, parse_on_off, parse_poisson
    from gavotte.terms.goodput import topology_goodput

    hosts = host_names(platform)
    return Conditions(
        [each for text in asked.poisson or [] for each in parse_poisson(text, hosts)]
        + [each for text in asked.on_off or [] for each in parse_on_off(text, hosts)],
        asked.alpha_s,
        asked.tcp,
        asked.until_s,
        1.0 if asked.goodput is False or isinstance(platform, Network) else topology_goodput(platform),
        seed,
        asked.accuracy,
    )


def _flows(
    platform: Topology | Network, paths: list[Path], _asked: QuestionOptions, conditions: Conditions
) -> tuple[list[str], Simulation, dict[str, Any]]:
    """Return ids, finish times and the summary of a list of flows."""
    from gavotte.simulate import host_names, read_flows
    from gavotte.simulate import simulate as run

    flows = read_flows(paths[0], host_names(platform))
    with progress("simulating"):
        return list(flows.names), run(platform, flows, conditions), {}


def _guarded(
    platform: Topology | Network, paths: list[Path], asked: QuestionOptions, conditions: Conditions
) -> tuple[list[str], Simulation, dict[str, Any]]:
    """Return the same for flows of hosts with guarantees."""
    from gavotte.formats.guarantee import read_guarantee
    from gavotte.simulate import PROTECTIONS, Queues, host_names, read_flows, simulate_guarded

    protection = asked.protection
    if protection is not None and protection not in PROTECTIONS:
        raise typer.BadParameter(f"`{protection}` is not a protection; use one of {', '.join(PROTECTIONS)}")
    assert asked.guarantee is not None
    guarantees, flows = read_guarantee(asked.guarantee), read_flows(paths[0], host_names(platform))
    if conditions.alpha_s:
        raise typer.BadParameter("--guarantee has its own round trips; leave out --alpha")
    queues = Queues(asked.marks) if asked.queue_s is None else Queues(asked.marks, asked.queue_s)
    with progress("simulating"):
        done = simulate_guarded(platform, flows, guarantees, conditions, protection=protection, queues=queues)
    shown = ("source", "target", "guarantee_bps", "limit_bps", "rate_bps", "met", "marks", "lost_bytes", "held")
    document = {
        "protection": done.protection,
        "window_s": done.window_s,
        "pairs": [{key: getattr(pair, key) for key in shown} for pair in done.pairs],
        "hosts": [asdict(host) for host in done.hosts],
    }
    return list(flows.names), done.simulation, {"guarantee": document}


def _placement(
    path: Path, platform: Topology | Network, apps: list[Path], asked: QuestionOptions, conditions: Conditions
) -> tuple[list[str], Simulation, dict[str, Any]]:
    """Return the same for a Placement."""
    from gavotte.formats.app import read_app
    from gavotte.formats.placement import read_placement
    from gavotte.simulate import replay_placement

    placed, loaded = read_placement(path), [read_app(app) for app in apps]
    with progress("simulating"):
        done = replay_placement(platform, loaded, placed, conditions)
    extra = {
        "completion_s": done.completion_s,
        "predicted_s": placed.completion_s,
        "method": placed.method,
        "apps": done.apps,
    }
    if asked.trace is not None:
        extra["job"] = _job(asked.trace, platform, loaded[0], placed, conditions.seed)
    return list(done.flows.names)[: done.transfers], done.simulation, extra


def _job(path: Path, platform: Topology | Network, app: App, placed: Placement, seed: int) -> dict[str, Any]:
    """Return the prediction for a traced job under a Placement."""
    from gavotte.errors import FormatError, GavotteError
    from gavotte.formats.network import Network
    from gavotte.formats.trace import read_trace
    from gavotte.simulate import JobReplay

    if not isinstance(platform, Network):
        raise typer.BadParameter("--trace needs a Network: a Topology is not measured")
    trace = read_trace(path)
    if len(trace.ranks) != len(app.task):
        raise FormatError(str(path), "ranks", f"has {len(trace.ranks)}", f"App `{app.name}` has {len(app.task)} tasks")
    try:
        hosts = [placed.assignment[task.name] for task in app.task]
    except KeyError as error:
        raise GavotteError(f"the placement has no host for task {error}", hint="place the application again") from None
    with progress("replaying"):
        replay = JobReplay(platform, trace, seed=seed)
        time = replay.predict(hosts)
    warn(replay.warnings)
    share = min(replay.least_s / time.predicted_s, 1.0) if time.predicted_s > 0 else 1.0
    return asdict(time) | {"least_s": replay.least_s, "computing_share": share}


def _tell_guarantee(document: dict[str, Any], most: int) -> None:
    """Print the pairs that were worst off, and the hosts whose guarantee was not met."""
    rows = sorted(document["pairs"], key=lambda pair: (math.isnan(pair["met"]), pair["met"]))
    columns = ["source", "target", "guarantee", "limit", "rate", "met", "marks"]
    emit_table(columns, [_pair(each) for each in rows[:most]], words=["target"], title="\npairs, worst first")
    if len(rows) > most:
        note(f"showing {most} of {len(rows)} pairs")
    for host in document["hosts"]:
        if host["why"]:
            note(f"{host['host']} had its guarantee {100 * host['met']:.0f} % of the time ({host['why']})")


def _pair(pair: dict[str, Any]) -> list[str]:
    rates = [format_rate(pair[key]) if pair[key] else "-" for key in ("guarantee_bps", "limit_bps", "rate_bps")]
    met = "-" if math.isnan(pair["met"]) else f"{100 * pair['met']:.0f} %"
    return [pair["source"], pair["target"], *rates, met, f"{100 * pair['marks']:.1f} %"]


def _summary(done: Simulation, ids: list[str]) -> dict[str, Any]:
    """Return the summary of the flows with an id."""
    import numpy as np

    count = len(ids)
    durations_s = done.durations_s[:count]
    finished = np.isfinite(done.finish_s[:count])
    return {
        "flows": count,
        "finished": int(finished.sum()),
        "makespan_s": done.makespan_s,
        "mean_s": float(durations_s[finished].mean()) if finished.any() else None,
        "end_s": done.end_s,
        "events": done.events,
        "seed": done.seed,
    }


def _show(summary: dict[str, Any]) -> None:
    flows, finished = summary["flows"], summary["finished"]
    if finished < flows:
        note(f"{finished} of {counted(flows, 'flow')} had finished at {summary['end_s']:.6g} s")
    else:
        mean = "" if summary["mean_s"] is None else f", {summary['mean_s']:.6g} s on average"
        note(f"{counted(flows, 'flow')} in {summary['makespan_s']:.6g} s{mean}, seed {summary['seed']}")
    if "job" in summary:
        job = summary["job"]
        note(f"job: {job['predicted_s']:.3g} s in MPI ({job['low_s']:.3g} to {job['high_s']:.3g})")
        share = job["computing_share"]
        note(f"{share:.0%} of it is computing: no placement saves more than {1 - share:.0%}")
    if "completion_s" in summary and finished == flows:
        note(
            f"{summary['method']}: completed in {summary['completion_s']:.3f} s, "
            f"predicted {summary['predicted_s']:.3f} s"
        )


def _link(link: LinkUse) -> dict[str, Any]:
    return {
        "name": link.name,
        "rate_bps": link.rate_bps,
        "bytes": link.bytes,
        "utilisation": link.utilisation,
        "full_s": link.busy_s,
    }


def _row(link: LinkUse) -> list[str]:
    carried, use = format_bytes(link.bytes), f"{100 * link.utilisation:.1f} %"
    return [link.name, format_rate(link.rate_bps), carried, use, f"{link.busy_s:.3f} s"]
