"""`gavotte simulate`: predict finish times of flows, or of a Placement, by the fluid model."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.options import Json, Seed, to_write
from gavotte.cli.output import emit_json, emit_table, note, progress, warn_of_unknown
from gavotte.formats.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.formats.network import Network
    from gavotte.formats.topology import Topology
    from gavotte.simulate import LinkUse, Simulation

SHOWN_LINKS = 10


def simulate(
    first: Annotated[
        Path, typer.Argument(help="A Topology or a Network. With --network, a Placement.", metavar="TOPOLOGY")
    ],
    rest: Annotated[
        list[Path],
        typer.Argument(help="The list of flows. With --network, the Apps that were placed.", metavar="FLOWS.csv"),
    ],
    output: Annotated[Path | None, to_write("Write the finish times to this file.", "FINISH.csv")] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            "--network",
            help="Simulate a Placement and its Apps on this Network, instead of a list of flows.",
            metavar="N.network.json",
        ),
    ] = None,
    goodput: Annotated[
        bool | None,
        typer.Option(
            "--goodput/--wire",
            help="Count bytes as TCP payload, 1448/1514 of what a Topology's rates carry (default), or as wire bytes.",
            show_default=False,
        ),
    ] = None,
    alpha_s: Annotated[
        float, typer.Option("--alpha", help="Latency before each flow starts.", min=0, metavar="SECONDS")
    ] = 0.0,
    tcp: Annotated[
        bool, typer.Option("--tcp", help="Share as TCP does, with less for flows that pass more full queues.")
    ] = False,
    poisson: Annotated[
        list[str] | None,
        typer.Option(
            "--poisson",
            help="Background flows that arrive at random. * stands for each host. May be repeated.",
            metavar="SOURCE:TARGET:PER_S:SIZE[:CAP]",
        ),
    ] = None,
    on_off: Annotated[
        list[str] | None,
        typer.Option(
            "--on-off",
            help="A background flow that comes and goes, with these mean times. May be repeated.",
            metavar="SOURCE:TARGET:ON_S:OFF_S[:CAP]",
        ),
    ] = None,
    guarantee: Annotated[
        Path | None,
        typer.Option(
            "--guarantee",
            help="Simulate agents that keep this Guarantee, with TCP windows and queues that mark and drop.",
            metavar="G.guarantee.toml",
        ),
    ] = None,
    protection: Annotated[
        str | None,
        typer.Option(
            "--protection",
            help="With --guarantee: ecn or loss (the mode of the Guarantee by default), elasticswitch-ecn or "
            "elasticswitch-loss as in the paper, static, seawall, or none.",
            metavar="NAME",
        ),
    ] = None,
    until_s: Annotated[
        float, typer.Option("--until", help="Stop at this time even if flows are left.", min=0, metavar="SECONDS")
    ] = math.inf,
    accuracy: Annotated[
        float,
        typer.Option(
            "--accuracy",
            help="Allowed relative error of rates, 0.01 = 1 %. Much faster if thousands of links are full.",
            min=0,
            max=0.1,
            metavar="SHARE",
        ),
    ] = 0.0,
    links: Annotated[
        int, typer.Option("--links", help="Number of links to show, the busiest first.", min=0, metavar="N")
    ] = (SHOWN_LINKS),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Predict when flows finish on a network that they share max-min fairly."""
    from gavotte.formats.network import Network
    from gavotte.simulate import host_names, parse_on_off, parse_poisson, read_platform, unmodelled, write_finish
    from gavotte.terms.goodput import topology_goodput

    if network is None and first.name.endswith(".placement.json"):
        raise typer.BadParameter("a Placement needs the Network that it was made for; use --network")
    if network is None and len(rest) != 1:
        raise typer.BadParameter("use one list of flows; only a Placement, with --network, takes several files")
    if guarantee is None and protection is not None:
        raise typer.BadParameter("--protection needs --guarantee")
    if accuracy and (guarantee is not None or network is not None):
        raise typer.BadParameter("--accuracy is for lists of flows without guarantees")
    if guarantee is not None and (network is not None or tcp or poisson or on_off):
        raise typer.BadParameter("--guarantee simulates a list of flows with TCP; leave out the other options")
    platform = read_platform(network or first)
    if goodput is False and isinstance(platform, Network):
        raise typer.BadParameter("--wire needs a Topology: a Network's rates are goodput")
    if isinstance(platform, Network):
        warn_of_unknown(platform)
    for warning in unmodelled(platform, guarded=guarantee is not None):
        note(f"warning: {warning}")
    hosts = host_names(platform)
    options: dict[str, Any] = {
        "background": [each for text in poisson or [] for each in parse_poisson(text, hosts)]
        + [each for text in on_off or [] for each in parse_on_off(text, hosts)],
        "alpha_s": alpha_s,
        "tcp": tcp,
        "until_s": until_s,
        "payload_share": 1.0 if goodput is False or isinstance(platform, Network) else topology_goodput(platform),
        "seed": seed,
    }
    if guarantee is not None:
        ids, done, extra = _guarded(platform, rest[0], guarantee, protection, options)
    elif network is None:
        ids, done, extra = _flows(platform, rest[0], options | {"accuracy": accuracy})
    else:
        ids, done, extra = _placement(platform, first, rest, options)
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
    _tell(summary)
    if output is not None:
        note(f"wrote {output}")


def _flows(
    platform: Topology | Network, path: Path, options: dict[str, Any]
) -> tuple[list[str], Simulation, dict[str, Any]]:
    """Return ids, finish times and the summary of a list of flows."""
    from gavotte.simulate import host_names, read_flows
    from gavotte.simulate import simulate as run

    flows = read_flows(path, host_names(platform))
    with progress("simulating"):
        return list(flows.names), run(platform, flows, **options), {}


def _guarded(
    platform: Topology | Network, path: Path, guarantee: Path, protection: str | None, options: dict[str, Any]
) -> tuple[list[str], Simulation, dict[str, Any]]:
    """Return the same for flows of hosts with guarantees."""
    from gavotte.formats.guarantee import read_guarantee
    from gavotte.simulate import PROTECTIONS, host_names, read_flows, simulate_guarded

    if protection is not None and protection not in PROTECTIONS:
        raise typer.BadParameter(f"`{protection}` is not a protection; use one of {', '.join(PROTECTIONS)}")
    guarantees, flows = read_guarantee(guarantee), read_flows(path, host_names(platform))
    taken = {key: options[key] for key in ("until_s", "payload_share", "seed")}
    if options["alpha_s"]:
        raise typer.BadParameter("--guarantee has its own round trips; leave out --alpha")
    with progress("simulating"):
        done = simulate_guarded(platform, flows, guarantees, protection=protection, **taken)
    shown = ("source", "target", "guarantee_bps", "limit_bps", "rate_bps", "met", "marks", "lost_bytes", "held")
    document = {
        "protection": done.protection,
        "window_s": done.window_s,
        "pairs": [{key: getattr(pair, key) for key in shown} for pair in done.pairs],
        "hosts": [asdict(host) for host in done.hosts],
    }
    return list(flows.names), done.simulation, {"guarantee": document}


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


def _placement(
    platform: Topology | Network, path: Path, apps: list[Path], options: dict[str, Any]
) -> tuple[list[str], Simulation, dict[str, Any]]:
    """Return the same for a Placement."""
    from gavotte.formats.app import read_app
    from gavotte.formats.placement import read_placement
    from gavotte.simulate import replay_placement

    placed, loaded = read_placement(path), [read_app(app) for app in apps]
    with progress("simulating"):
        done = replay_placement(platform, loaded, placed, **options)
    extra = {
        "completion_s": done.completion_s,
        "predicted_s": placed.completion_s,
        "method": placed.method,
        "apps": done.apps,
    }
    return list(done.flows.names)[: done.transfers], done.simulation, extra


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


def _tell(summary: dict[str, Any]) -> None:
    flows, finished = summary["flows"], summary["finished"]
    if finished < flows:
        note(f"{finished} of {flows} flows had finished at {summary['end_s']:.6g} s")
    else:
        mean = "" if summary["mean_s"] is None else f", {summary['mean_s']:.6g} s on average"
        note(f"{flows} flows in {summary['makespan_s']:.6g} s{mean}, seed {summary['seed']}")
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
