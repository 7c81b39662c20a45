"""`gavotte model`: History to Network."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gavotte.cli.output import Json, emit_table, note
from gavotte.formats.rates import format_rate

if TYPE_CHECKING:
    from gavotte.formats.network import Network


def model(
    history: Annotated[Path, typer.Argument(help="A History.", metavar="H.npz")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the Network.", metavar="N.network.json")
    ] = None,
    method: Annotated[str, typer.Option("--method", help="median, mean, min or last of each pair's times.")] = "median",
    sharing: Annotated[
        str, typer.Option("--sharing", help="auto (as the evidence says), hose, pipe or groups.")
    ] = "auto",
    as_json: Json = False,
) -> None:
    """Learn one lasting value for each pair, and what caps each host."""
    from gavotte.errors import GavotteError
    from gavotte.formats.history import read_history
    from gavotte.formats.network import write_network
    from gavotte.model import model as learn

    kinds: dict[str, Literal["auto", "hose", "pipe", "groups"]]
    kinds = {"auto": "auto", "hose": "hose", "pipe": "pipe", "groups": "groups"}
    if sharing not in kinds:
        raise GavotteError(f"no sharing {sharing!r}", hint=f"choose one of {', '.join(kinds)}")
    network = learn(read_history(history), method=method, sharing=kinds[sharing])
    if output is not None:
        write_network(output, network)
    if as_json:
        typer.echo(network.model_dump_json(indent=2))
        return
    _print(network)
    for text in network.notes:
        note(f"warning: {text}")
    if output is not None:
        note(f"wrote {output}")


def _print(network: Network) -> None:
    """The tree with its caps, then what the experiments said of each link."""
    rows = [[name, _rate(up_bps), _rate(down_bps), cpus] for name, up_bps, down_bps, cpus in _tree(network)]
    emit_table([f"sharing: {network.sharing}", "out", "in", "cpus"], rows)
    if network.verdicts:
        typer.echo()
        emit_table(
            ["link", "verdict", "limit", "at least", "evidence"],
            [
                [v.link, v.verdict, _rate(v.rate_bps), _rate(v.at_least_bps), v.evidence.partition("; ")[0]]
                for v in network.verdicts
            ],
            words=("verdict", "evidence"),
        )


def _rate(rate_bps: float | None) -> str:
    return format_rate(rate_bps) if rate_bps else "-"


def _tree(network: Network) -> list[tuple[str, float | None, float | None, str]]:
    """One line a node, children indented below their parents."""
    inner: dict[str, tuple[int, str]] = {}
    for group in network.groups:
        for member in group.members:
            if member not in inner or len(group.members) < inner[member][0]:
                inner[member] = (len(group.members), group.name)
    lines: list[tuple[str, float | None, float | None, str]] = []
    machines: dict[str | None, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, host in enumerate(network.hosts):
        parent = inner[host.name][1] if host.name in inner else None
        machines[parent][host.machine or host.name].append(number)

    def below(parent: str | None, depth: int) -> None:
        for group in network.groups:
            if group.parent == parent:
                lines.append(("  " * depth + group.name, group.up_bps, group.down_bps, ""))
                below(group.name, depth + 1)
        for machine, numbers in machines[parent].items():
            together = len(numbers) > 1 and machine != parent
            if together:
                lines.append(("  " * depth + machine, None, None, ""))
            for number in numbers:
                host = network.hosts[number]
                indent = "  " * (depth + together)
                lines.append((indent + host.name, host.egress_bps, host.ingress_bps, f"{host.cpus:g}"))

    below(None, 0)
    return lines
