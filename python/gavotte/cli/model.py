"""`gavotte model`: turn a History into a Network."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json, Seed
from gavotte.cli.output import emit_json, emit_table, note, warn
from gavotte.cli.progress import progress
from gavotte.cli.writing import to_write
from gavotte.formats.parts.rates import format_rate

if TYPE_CHECKING:
    from gavotte.formats.network import LinkVerdict, Network
    from gavotte.model import Constant, Findings

PICTURES = ("png", "svg", "pdf")
STEPS = 3
"""The constant, the Network, and what is known about them."""


@dataclass(frozen=True)
class QuestionOptions:
    """What to learn, and from which hosts."""

    method: str = option(
        "Estimator of the constant. auto takes the one that decides best on held-out snapshots.",
        default="auto",
    )
    sharing: str = option("Links that later transfers share. auto takes what the evidence says.", default="auto")
    plot: Annotated[
        Path | None,
        to_write("Draw the constant, and how fast it settles, to this file.", "FILE.png|svg|pdf", "--plot"),
    ] = None
    fill: bool | None = option(
        "Guess pairs that were never measured from the other pairs of their hosts. By default, if they are at "
        "most a tenth of all.",
        None,
        "--fill/--no-fill",
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
    from gavotte.formats.history import read_history
    from gavotte.formats.network import write_network
    from gavotte.model import find_constant, judge
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
    measured = read_history(history).without(asked.without or ())
    with progress("modelling", "steps") as advance:
        advance(0, STEPS)
        constant = find_constant(measured, method=asked.method, seed=seed, fill=asked.fill)
        advance(1, STEPS)
        network = learn(measured, sharing=kinds[asked.sharing], constant=constant)
        network = network.model_copy(update={"beside": sorted(set(asked.beside or ()))})
        advance(2, STEPS)
        findings = judge(measured, constant)
    if output is not None:
        write_network(output, network)
    if asked.plot is not None:
        from gavotte.model.plot import picture

        write_bytes(asked.plot, picture(constant, findings, kind=picture_kind))
    if as_json:
        emit_json(network.model_dump(mode="json") | {"constant": _document(constant, findings)})
    else:
        _print(network)
        _show(findings)
    warn(network.notes)
    for path in (output, asked.plot):
        if path is not None:
            note(f"wrote {path}")


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
            }
            for trial in constant.choice.trials
        ],
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


def _show(findings: Findings) -> None:
    """Print the same in words."""
    norm = findings.norm
    few = "s" * (findings.snapshots != 1)
    note(
        f"constant by {findings.method} from {findings.snapshots} snapshot{few}; norm {norm.share:.2f} at tolerance "
        f"{norm.tolerance:.2f}, {norm.wide_share:.2f} at {norm.wide_tolerance:.2f}, load removed; "
        f"band {findings.band:.3f}"
    )
    for text in findings.advice:
        note(text)


def _print(network: Network) -> None:
    """Print the tree with its caps, then the experiments' verdict on each link."""
    verdicts = {end: verdict for verdict in network.verdicts for end in verdict.link.split(", ")}

    def cap(end: str, cap_bps: float | None) -> str:
        """Return a limit that experiments found; otherwise the highest rate that was seen."""
        verdict = verdicts.get(end)
        if verdict is not None and verdict.rate_bps:
            return _rate(cap_bps)
        seen_bps = max(cap_bps or 0.0, verdict.at_least_bps or 0.0 if verdict is not None else 0.0)
        return f"at least {format_rate(seen_bps)}" if seen_bps else "-"

    seen = {f"out of {host.name}": host.egress_bps or 0.0 for host in network.hosts}
    seen |= {f"into {host.name}": host.ingress_bps or 0.0 for host in network.hosts}

    def least(verdict: LinkVerdict) -> float:
        """Return the highest rate seen on a link: in experiments and, for a host's link, on any path of the host."""
        ends = () if verdict.rate_bps else verdict.link.split(", ")
        return max([verdict.at_least_bps or 0.0, *(seen.get(end, 0.0) for end in ends)])

    rows = [
        ["  " * depth + name, cap(f"out of {name}", up_bps), cap(f"into {name}", down_bps), cpus]
        for depth, name, up_bps, down_bps, cpus in _tree(network)
    ]
    emit_table([f"sharing: {network.sharing}", "out", "in", "cpus"], rows)
    if network.verdicts:
        typer.echo()
        emit_table(
            ["link", "verdict", "limit", "at least", "evidence"],
            [
                [v.link, v.verdict, _rate(v.rate_bps), _rate(least(v)), v.evidence.partition("; ")[0]]
                for v in network.verdicts
            ],
            words=("verdict", "evidence"),
        )


def _rate(rate_bps: float | None) -> str:
    return format_rate(rate_bps) if rate_bps else "-"


def _tree(network: Network) -> list[tuple[int, str, float | None, float | None, str]]:
    """Return one line per node, children indented below their parents."""
    inner: dict[str, tuple[int, str]] = {}
    for group in network.groups:
        for member in group.members:
            if member not in inner or len(group.members) < inner[member][0]:
                inner[member] = (len(group.members), group.name)
    lines: list[tuple[int, str, float | None, float | None, str]] = []
    machines: dict[str | None, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, host in enumerate(network.hosts):
        parent = inner[host.name][1] if host.name in inner else None
        machines[parent][host.machine or host.name].append(number)

    def below(parent: str | None, depth: int) -> None:
        for group in network.groups:
            if group.parent == parent:
                lines.append((depth, group.name, group.up_bps, group.down_bps, ""))
                below(group.name, depth + 1)
        for machine, numbers in machines[parent].items():
            together = len(numbers) > 1 and machine != parent
            if together:
                lines.append((depth, machine, None, None, ""))
            for number in numbers:
                host = network.hosts[number]
                lines.append((depth + together, host.name, host.egress_bps, host.ingress_bps, f"{host.cpus:g}"))

    below(None, 0)
    return lines
