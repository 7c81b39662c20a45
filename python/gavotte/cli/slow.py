"""`gavotte hosts slow`: find the hosts and uplinks that are below the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gavotte.cli.budget import read_limits
from gavotte.cli.declared import declared, option
from gavotte.cli.options import AssumedRate, Budget, DryRun, Hosts, Json, PricePerGb, Seed, TakeOver, read_rate
from gavotte.cli.output import emit_findings, emit_json, emit_table, note, warn, with_information
from gavotte.cli.progress import progress
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import common_unit, format_bytes, format_in

if TYPE_CHECKING:
    from gavotte.measure.slow import SlowHosts, SlowPlan


@dataclass(frozen=True)
class SlowOptions:
    """When a host counts as slow, and how pairs are probed."""

    below: float = option(
        "Report what is this many percent below the median of the others.", "PERCENT", default=10.0, min=1, max=90
    )
    error: float = option("Chance, in percent, that any verdict is false.", "PERCENT", default=1.0, min=0.0001, max=50)
    network: Path | None = option(
        "A Network whose groups are the racks. Their uplinks are compared, too.", "N.network.json"
    )
    flows: int = option("Number of parallel TCP connections of each probe.", "N", default=4, min=1, max=64)
    seconds: float = option("Duration of each probe.", "SECONDS", default=0.5, min=0.1, max=60)
    seed: Seed = 0
    take_over: TakeOver = False


@dataclass(frozen=True)
class CostOptions:
    """What it may cost, and how that is shown."""

    assumed_rate: AssumedRate = None
    budget: Budget = None
    price_per_gb: PricePerGb = 0.0
    dry_run: DryRun = False
    as_json: Json = False


@declared
def slow(hosts: Hosts, asked: SlowOptions, costing: CostOptions) -> int:
    """Find hosts and uplinks that are below the others. Exits with 1 if there are any, or a host does not answer."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.network import read_network
    from gavotte.measure import ProbeSession, bulk
    from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS
    from gavotte.measure.slow import SlowQuestion, Threshold, plan_slow, search

    question = SlowQuestion(
        resolve_hosts(hosts),
        Threshold(asked.below / 100, asked.error / 100),
        bulk(flows=asked.flows, seconds=asked.seconds),
        None if asked.network is None else read_network(asked.network),
        asked.seed,
        read_limits(costing.budget or [], costing.price_per_gb),
        ASSUMED_RATE_BPS if costing.assumed_rate is None else read_rate("--assumed-rate", costing.assumed_rate),
    )
    plan = plan_slow(question)
    _announce(plan)
    plan.check()
    if costing.dry_run:
        if costing.as_json:
            emit_json(_plan_document(plan))
        return 0
    with progress("looking for slow hosts", "rounds") as advance:
        result = search(plan, ProbeSession(advance, asked.take_over))
    warn(result.warnings)
    if costing.as_json:
        emit_json(_document(result))
    else:
        _show(result)
    return 0 if result.all_fine else 1


def _announce(plan: SlowPlan) -> None:
    """Print what the search will do and cost."""
    cost, (usual, most) = plan.cost, plan.rounds
    uplinks = f" and {len(plan.racks.names)} uplinks" if plan.racks.enough else ""
    money = f", about {cost.money:.2f} in money" if cost.money else ""
    note(
        f"{len(plan.names)} hosts{uplinks} in about {usual} rounds, at most {most}: about {format_bytes(cost.bytes)}, "
        f"at most {format_bytes(cost.max_bytes)}, about {cost.seconds:.0f} s and at most {cost.max_seconds:.0f} s"
        f"{money}, seed {plan.question.seed}"
    )


def _show(result: SlowHosts) -> None:
    """Print findings, the table of directions, slow pairs, and what could not be seen."""
    emit_findings(_findings(result))
    shown = with_information(result.ends, lambda end: end.verdict != "fine", "direction", "without a fault")
    if shown:
        unit, scale = common_unit([end.rate_bps for end in shown if end.rate_bps == end.rate_bps])
        rows = [
            [
                end.name if end.kind == "host" else f"uplink {end.name}",
                end.direction,
                format_in(end.rate_bps, scale) if end.rate_bps == end.rate_bps else "-",
                _percent(end.share),
                _interval(end.low, end.high),
                str(end.probes),
                end.verdict,
            ]
            for end in shown
        ]
        columns = ["host", "direction", f"rate {unit}", "of median", "interval", "probes", "verdict"]
        emit_table(columns, rows, words=("direction", "verdict"))
    note(
        f"{counted(result.probes, 'probe')} in {counted(result.rounds, 'round')}, {result.seconds:.1f} s, "
        f"{format_bytes(result.bytes_sent)} sent, probes of one host differ by {100 * result.spread:.1f} %, "
        f"seed {result.seed}"
    )
    note(result.unseen)


def _findings(result: SlowHosts) -> list[str]:
    """Return what is slow, one sentence each."""
    sentences = [
        f"{'uplink ' * (end.kind == 'uplink')}{end.name} {end.direction} {100 * (1 - end.share):.0f} % below the "
        f"median of the others, at least {100 * (1 - end.high):.0f} %"
        for end in result.slow
    ]
    sentences += [
        f"only {pair.source} to {pair.target} is slow: {100 * (1 - pair.share):.0f} % below what both hosts reach with "
        f"others, at least {100 * (1 - pair.high):.0f} %"
        for pair in result.pairs
    ]
    sentences += [f"{name} does not answer" for name in result.silent]
    undecided = [end for end in result.ends if end.verdict == "cannot tell"]
    if not sentences and not undecided:
        sentences.append(f"no host is {100 * result.below:g} % below the median of the others")
    return sentences


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share == share else "-"


def _interval(low: float, high: float) -> str:
    return f"{100 * low:.1f} to {100 * high:.1f} %" if low > 0 and high < float("inf") else "-"


def _plan_document(plan: SlowPlan) -> dict[str, object]:
    """Return the plan as `--dry-run --json` prints it."""
    cost = plan.cost
    return {
        "hosts": len(plan.names),
        "uplinks": len(plan.racks.names) if plan.racks.enough else 0,
        "rounds": plan.rounds[0],
        "max_rounds": plan.rounds[1],
        "probes": plan.probes[0],
        "max_probes": plan.probes[1],
        "bytes": cost.bytes,
        "max_bytes": cost.max_bytes,
        "seconds": cost.seconds,
        "max_seconds": cost.max_seconds,
        "money": cost.money,
        "seed": plan.question.seed,
    }


def _document(result: SlowHosts) -> dict[str, object]:
    """Return the result as `--json` prints it."""
    rows = {kind: [vars(end) for end in result.ends if end.kind == kind] for kind in ("host", "uplink")}
    return {
        "slow": list(dict.fromkeys(end.name for end in result.slow if end.kind == "host")),
        "slow_uplinks": list(dict.fromkeys(end.name for end in result.slow if end.kind == "uplink")),
        "silent": result.silent,
        "hosts": rows["host"],
        "uplinks": rows["uplink"],
        "pairs": [vars(pair) for pair in result.pairs],
        "classes": [vars(each) for each in result.classes],
        "below": result.below,
        "error": result.error,
        "spread": result.spread,
        "rounds": result.rounds,
        "probes": result.probes,
        "pair_chance": result.pair_chance,
        "not_seen": result.unseen,
        "seconds": result.seconds,
        "bytes_sent": result.bytes_sent,
        "seed": result.seed,
        "left_out": result.left_out,
        "missing": result.missing,
        "lost": result.lost,
        "stopped": result.stopped,
        "beside": [each.as_dict() for each in result.beside],
        "guaranteed_bps": result.guaranteed_bps,
    }
