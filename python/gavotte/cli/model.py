"""`gavotte model`: turn a History into a Network."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.many_hosts import print_groups
from gavotte.cli.options import Json, Seed
from gavotte.cli.output import emit_findings, emit_json, emit_table, note, verbose, warn
from gavotte.cli.progress import progress
from gavotte.cli.writing import to_write
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import common_unit, format_in
from gavotte.terms.limits import Limit, limits_of, link_rows
from gavotte.terms.standouts import standouts

if TYPE_CHECKING:
    from gavotte.formats.history import PairHistory
    from gavotte.formats.network import Network
    from gavotte.model import Choice, Constant, Findings

PICTURES = ("png", "svg", "pdf")
WORDS = {
    "any": "time of trees and placements on later snapshots",
    "trees": "time of trees on later snapshots",
    "placement": "time of placements on later snapshots",
    "prediction": "error of predicted times on later snapshots",
}
"""What the trials of each purpose compare."""

STEPS = 3
"""The constant, the Network, and what is known about them."""


@dataclass(frozen=True)
class QuestionOptions:
    """What to learn, and from which hosts."""

    method: str = option(
        "Estimator of the constant. auto takes the one that serves --for best on later snapshots.",
        default="auto",
    )
    purpose: str = option(
        "Use of the Network, by which auto chooses. By default trees and placement together.",
        None,
        "--for",
        default="any",
    )
    sharing: str = option("Links that later transfers share. auto takes what the evidence says.", default="auto")
    plot: Annotated[
        Path | None,
        to_write("Draw the constant, and how fast it settles, to this file.", "FILE.png|svg|pdf", "--plot"),
    ] = None
    fill: bool | None = option(
        "Guess pairs that were never measured from the other pairs of their hosts. By default, if they are at "
        "most a tenth of all, or after `measure --scale structure`.",
        None,
        "--fill/--no-fill",
        show_default=False,
    )
    compact: bool | None = option(
        "Write version 2 of the format, which grows with hosts and not with pairs. By default above 256 hosts.",
        None,
        "--compact/--no-compact",
        show_default=False,
    )
    without: list[str] | None = option("Leave out this host. May be repeated.", "HOST")
    beside: list[str] | None = option(
        "An App of yours that ran while this was measured, so that `place --running` does not count what it "
        "sends twice. May be repeated.",
        "NAME",
    )


@declared
def model(
    history: Annotated[Path, typer.Argument(help="The History to learn from.", metavar="H.npz")],
    *,
    output: Annotated[Path | None, to_write("Write the Network to this file.", "N.network.json")] = None,
    asked: QuestionOptions,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn the lasting rate of each pair and the caps of each host, and whether placing will pay."""
    from gavotte.errors import GavotteError
    from gavotte.formats.files.reading import check_ending, write_bytes
    from gavotte.formats.history import read_history, read_pairs
    from gavotte.formats.network import MOST_IN_MATRICES, write_network
    from gavotte.model import are_few, check_held_out, compact, find_constant, judge
    from gavotte.model import model as learn

    kinds: dict[str, Literal["auto", "hose", "pipe", "groups"]]
    kinds = {"auto": "auto", "hose": "hose", "pipe": "pipe", "groups": "groups"}
    if asked.sharing not in kinds:
        raise GavotteError(f"unknown sharing `{asked.sharing}`", hint=f"use one of {', '.join(kinds)}")
    picture_kind = asked.plot.suffix.removeprefix(".") if asked.plot is not None else ""
    if asked.plot is not None and picture_kind not in PICTURES:
        raise GavotteError(
            f"--plot: cannot draw `{asked.plot}`", hint=f"use a name that ends in .{', .'.join(PICTURES)}"
        )
    if output is not None:
        check_ending(output, "a Network")
    listed = read_pairs(history).without(asked.without or ())
    if asked.compact is not False and len(listed.hosts) > MOST_IN_MATRICES and are_few(listed):
        _model_few(listed, output, asked, kinds[asked.sharing], as_json=as_json)
        return
    measured = read_history(history).without(asked.without or ())
    with progress("modelling", "steps") as advance:
        advance(0, STEPS)
        constant = find_constant(
            measured,
            method=asked.method,
            purpose=asked.purpose,  # type: ignore[arg-type] # find_constant checks it
            seed=seed,
            fill=asked.fill,
        )
        advance(1, STEPS)
        network = learn(measured, sharing=kinds[asked.sharing], constant=constant)
        network = network.model_copy(update={"beside": sorted(set(asked.beside or ()))})
        warnings: tuple[str, ...] = ()
        if asked.compact or (asked.compact is None and len(network.hosts) > MOST_IN_MATRICES):
            compacted = compact(network, check_held_out(measured))
            network, warnings = compacted.network, compacted.warnings
        advance(2, STEPS)
        findings = judge(measured, constant)
    if output is not None:
        write_network(output, network)
    if asked.plot is not None:
        from gavotte.model.plot import picture

        write_bytes(asked.plot, picture(constant, findings, kind=picture_kind))
    if as_json:
        emit_json(
            network.model_dump(mode="json", exclude=set(network.absent))
            | {"findings": standouts(network), "constant": _document(constant, findings)}
        )
    else:
        _print(network)
        _show(findings, constant.choice)
    warn([*network.notes, *warnings])
    for path in (output, asked.plot):
        if path is not None:
            note(f"wrote {path}")


def _model_few(
    history: PairHistory,
    output: Path | None,
    asked: QuestionOptions,
    sharing: Literal["auto", "hose", "pipe", "groups"],
    *,
    as_json: bool,
) -> None:
    """Learn from few pairs of many hosts, and write and print the result."""
    from gavotte.errors import GavotteError
    from gavotte.formats.network import write_network
    from gavotte.model import PURPOSES, learn_from_few

    if asked.plot is not None:
        raise GavotteError("--plot draws each pair, and few of them were measured", hint="use `gavotte report`")
    if asked.fill is False:
        raise GavotteError("--no-fill needs a rate of each pair, and few were measured", hint="leave it out")
    if asked.purpose not in PURPOSES:
        raise GavotteError(f"unknown purpose `{asked.purpose}`", hint=f"use one of {', '.join(PURPOSES)}")
    if asked.purpose != "any":
        raise GavotteError(
            "--for compares methods on all pairs of some hosts, and few were measured", hint="leave it out"
        )
    with progress("modelling", "steps") as advance:
        advance(0, 1)
        learned = learn_from_few(history, method=asked.method, sharing=sharing)
        advance(1, 1)
    network = learned.network.model_copy(update={"beside": sorted(set(asked.beside or ()))})
    if output is not None:
        write_network(output, network)
    if as_json:
        constant = {
            "method": learned.method,
            "snapshots": learned.snapshots,
            "norm": vars(learned.norm),
            "band": network.band,
            "load": learned.load.tolist(),
        }
        known = network.model_dump(mode="json", exclude=set(network.absent))
        emit_json(known | {"findings": standouts(network), "constant": constant})
    else:
        _print(network)
        note(f"learned from {counted(learned.snapshots, 'snapshot')} by the method {learned.method}")
        if learned.check is not None:
            note(learned.check.sentence)
    warn([*network.notes, *learned.warnings])
    if output is not None:
        note(f"wrote {output}")


def _document(constant: Constant, findings: Findings) -> dict[str, Any]:
    """Return what is known about the constant in addition to the Network."""
    gains = findings.gains
    return {
        "method": findings.method,
        "snapshots": findings.snapshots,
        "norm": vars(findings.norm),
        "band": findings.band,
        "load": findings.load.tolist(),
        "gains": None if gains is None else {name: vars(interval) for name, interval in vars(gains).items()},
        "held_out": [
            {
                "method": trial.method,
                "broadcast_s": float(trial.broadcast_s.mean()),
                "mapping_s": float(trial.mapping_s.mean()),
                "error": _finite(trial.mean_error),
                "over_mean": _over_mean(constant.choice, trial.method),
            }
            for trial in constant.choice.trials
        ],
        "purpose": constant.choice.purpose,
        "steps": findings.steps,
        "step_snapshots": findings.step_snapshots,
        "enough": findings.enough,
        "recalibrate_after_s": findings.recalibrate_after_s,
        "moved_share": findings.moved_share,
        "moved_hosts": list(findings.moved_hosts),
        "measured_share": findings.measured_share,
        "subset": None if findings.subset is None else vars(findings.subset),
        "rate_low_bps": findings.rate_low_bps.tolist(),
        "rate_high_bps": findings.rate_high_bps.tolist(),
        "advice": list(findings.advice),
        "seed": constant.seed,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _over_mean(choice: Choice, method: str) -> dict[str, float | None] | None:
    """Return a method's cost divided by the mean's, minus 1, and the relative standard error."""
    over = choice.over_base(method)
    return None if over is None else {"mean": math.expm1(over[0]), "error": _finite(over[1])}


def _show(findings: Findings, choice: Choice) -> None:
    """Print how steady the measured times were, and the advice that follows; with -v in the words of statistics."""
    norm = findings.norm
    note(f"learned from {counted(findings.snapshots, 'snapshot')} by the method {findings.method}")
    if choice.trials:
        for method in [trial.method for trial in choice.trials] if verbose() else [choice.method]:
            mean, error = choice.over_base(method) or (0.0, 0.0)
            if method != "mean":
                change = f"{100 * math.expm1(mean):+.1f} ± {100 * error:.1f} % compared with the mean"
                few = "too few new values to compare"
                note(f"{WORDS[choice.purpose]} by {method}: {few if math.isinf(error) else change}")
    if findings.snapshots > 1:
        note(
            f"steadiness: {100 * norm.share:.0f} % of the measured times were more than {100 * norm.tolerance:.0f} % "
            f"off the lasting value of their pair; the others scatter by {100 * findings.band:.1f} %"
        )
    if verbose():
        note(
            f"norm {norm.share:.2f} at tolerance {norm.tolerance:.2f}, {norm.wide_share:.2f} at "
            f"{norm.wide_tolerance:.2f}, load removed; band {findings.band:.3f}"
        )
    for text in findings.advice:
        note(text)


def _print(network: Network) -> None:
    """Print what stands out, the tree with its caps, then the experiments' verdict on each link."""
    from gavotte.formats.network import MOST_IN_MATRICES

    emit_findings(standouts(network))
    if len(network.hosts) > MOST_IN_MATRICES and not verbose():
        print_groups(network)
        return
    limits, links = limits_of(network), link_rows(network)
    rates_bps = [limit.rate_bps or 0.0 for limit in limits.values()] + [row.least_bps or 0.0 for row in links]
    unit, scale = common_unit(rates_bps)

    def rate(rate_bps: float | None) -> str:
        return format_in(rate_bps, scale) if rate_bps else "-"

    def cap(end: str) -> str:
        """Return a limit that experiments found; otherwise the highest rate that was seen."""
        limit = limits.get(end, Limit(None, certain=False))
        return f"at least {rate(limit.rate_bps)}" if limit.rate_bps and not limit.certain else rate(limit.rate_bps)

    rows = [
        ["  " * depth + name, cap(f"out of {name}"), cap(f"into {name}"), cpus] for depth, name, cpus in _tree(network)
    ]
    emit_table([f"sharing: {network.sharing}", f"out {unit}", f"into {unit}", "cpus"], rows)
    shown = [row for row in links if verbose() or row.informative]
    if shown:
        typer.echo()
        emit_table(
            ["link", "verdict", f"limit {unit}", f"at least {unit}", "evidence"],
            [
                [row.verdict.link, row.verdict.verdict, rate(row.verdict.rate_bps), rate(row.least_bps), row.reason]
                for row in shown
            ],
            words=("verdict", "evidence"),
        )
    for reason, count in Counter(row.reason for row in links if row not in shown).most_common():
        note(f"{counted(count, 'link')} without a verdict: {reason} (-v lists them)")


def _tree(network: Network) -> list[tuple[int, str, str]]:
    """Return one line per node, children indented below their parents."""
    inner: dict[str, tuple[int, str]] = {}
    for group in network.groups:
        for member in group.members:
            if member not in inner or len(group.members) < inner[member][0]:
                inner[member] = (len(group.members), group.name)
    lines: list[tuple[int, str, str]] = []
    machines: dict[str | None, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, host in enumerate(network.hosts):
        parent = inner[host.name][1] if host.name in inner else None
        machines[parent][host.machine or host.name].append(number)

    def below(parent: str | None, depth: int) -> None:
        for group in network.groups:
            if group.parent == parent:
                lines.append((depth, group.name, ""))
                below(group.name, depth + 1)
        for machine, numbers in machines[parent].items():
            together = len(numbers) > 1 and machine != parent
            if together:
                lines.append((depth, machine, ""))
            for number in numbers:
                host = network.hosts[number]
                lines.append((depth + together, host.name, f"{host.cpus:g}"))

    below(None, 0)
    return lines
