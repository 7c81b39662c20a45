"""`gavotte measure cross`: measure the cross traffic on a path, and add it to a Network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Hosts, Json, TakeOver, read_rate
from gavotte.cli.output import emit_json, emit_table, note, warn
from gavotte.cli.progress import progress
from gavotte.cli.writing import to_write
from gavotte.formats.parts.rates import format_rate

if TYPE_CHECKING:
    from gavotte.measure.cross import CrossTraffic


@dataclass(frozen=True)
class CrossOptions:
    """How to estimate the load."""

    max_rate: str | None = option(
        "TCP goodput of the idle path, e.g. 287mbit. By default several connections take turns with one.", "RATE"
    )
    seconds: float = option("Duration of the measurement.", "SECONDS", default=10.0, min=1, max=600)
    network: Path | None = option("A Network that knows the rate of the idle path.", "N.network.json")


@dataclass(frozen=True)
class ResultOptions:
    """Where the result goes."""

    output: Annotated[
        Path | None,
        to_write(
            "Write the Network of --network with the cross traffic, which `place` then takes into account.",
            "N.network.json",
        ),
    ] = None
    beside: list[str] | None = option(
        "An App of yours that runs meanwhile, so that `place --running` does not count it twice. May be "
        "repeated; those of `gavotte run` are recognised.",
        "NAME",
    )
    take_over: TakeOver = False
    as_json: Json = False


@declared
def cross(
    source: Annotated[str, typer.Argument(help="The sending host.", metavar="SOURCE")],
    target: Annotated[str, typer.Argument(help="The receiving host.", metavar="TARGET")],
    hosts: Hosts,
    asked: CrossOptions,
    writing: ResultOptions,
) -> None:
    """Estimate the cross traffic on a path, as a number of bulk TCP connections (Choreo, section 3.2)."""
    from gavotte.agents import resolve_hosts
    from gavotte.errors import GavotteError
    from gavotte.formats.network import read_network, write_network
    from gavotte.measure import ProbeSession
    from gavotte.measure.cross import CrossQuestion
    from gavotte.measure.cross import cross as watch

    net, output = read_network(asked.network) if asked.network is not None else None, writing.output
    if output is not None and net is None:
        raise GavotteError("-o needs a Network to add it to", hint="name it with --network")
    max_bps = None if asked.max_rate is None else read_rate("--max-rate", asked.max_rate)
    question = CrossQuestion(resolve_hosts(hosts), source, target, max_bps, net, asked.seconds)
    with progress("measuring cross traffic", "turns", limit_s=asked.seconds) as advance:
        traffic = watch(question, ProbeSession(advance, writing.take_over))
    mine = sorted({*(writing.beside or ()), *(name for each in traffic.beside for name in each.apps)})
    if output is not None and net is not None and traffic.told:
        write_network(output, net.with_cross(source, target, traffic.median, beside=mine))
    warn(traffic.warnings)
    if writing.as_json:
        series = {"time_s": traffic.time_s.tolist(), "connections": traffic.connections.tolist()}
        emit_json(vars(traffic) | series | {"told": traffic.told, "beside": mine})
    else:
        _show(traffic)
    if not traffic.told:
        raise GavotteError(
            f"the cross traffic from {source} to {target} is unknown without the rate of the idle path",
            hint="give it with --max-rate, or a Network that knows it with --network",
        )
    if output is not None:
        note(f"wrote {output}")


def _show(traffic: CrossTraffic) -> None:
    """Print the cross traffic over time, and a summary line."""
    if not traffic.told:
        most = f"to {traffic.high:.1f} connections" if math.isfinite(traffic.high) else "connections to any number"
        note(f"cross traffic of {traffic.low:.1f} {most} ({traffic.how})")
        return
    rows = [[f"{t:.2f}", f"{c:.1f}"] for t, c in zip(traffic.time_s, traffic.connections, strict=True)]
    note(
        f"cross traffic of {traffic.median:.1f} connections "
        f"({traffic.low:.1f} to {traffic.high:.1f} from the 10th to the 90th percentile); "
        f"path {format_rate(traffic.max_bps)} ({traffic.how}); round trip {1e3 * traffic.rtt_idle_s:.2f} ms idle, "
        f"{1e3 * traffic.rtt_loaded_s:.2f} ms loaded"
    )
    emit_table(["time s", "connections"], rows)
