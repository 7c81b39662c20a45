"""`gavotte measure cross`: measure the cross traffic on a path, and add it to a Network."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.options import Hosts, Json, TakeOver, read_rate, to_write
from gavotte.cli.output import emit_json, emit_table, note, warn_beside
from gavotte.formats.rates import format_rate

if TYPE_CHECKING:
    from gavotte.measure.cross import CrossTraffic


def cross(
    source: Annotated[str, typer.Argument(help="The sending host.", metavar="SOURCE")],
    target: Annotated[str, typer.Argument(help="The receiving host.", metavar="TARGET")],
    hosts: Hosts,
    max_rate: Annotated[
        str | None,
        typer.Option(
            "--max-rate",
            help="TCP goodput of the idle path, e.g. 287mbit. By default several connections take turns with one.",
            metavar="RATE",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", help="Duration of the measurement.", min=1, max=600, metavar="SECONDS")
    ] = 10.0,
    network: Annotated[
        Path | None,
        typer.Option("--network", help="A Network that knows the rate of the idle path.", metavar="N.network.json"),
    ] = None,
    output: Annotated[
        Path | None,
        to_write(
            "Write the Network of --network with the cross traffic, which `place` then takes into account.",
            "N.network.json",
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            help="An App of yours that runs meanwhile, so that `place --running` does not count it twice. May be "
            "repeated; those of `gavotte run` are recognised.",
            metavar="NAME",
        ),
    ] = None,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Estimate the cross traffic on a path, as a number of bulk TCP connections (Choreo, section 3.2)."""
    from gavotte.agents import resolve_hosts
    from gavotte.errors import GavotteError
    from gavotte.formats.network import read_network, write_network
    from gavotte.measure.cross import cross as watch

    net = read_network(network) if network is not None else None
    if output is not None and net is None:
        raise GavotteError("-o needs a Network to add it to", hint="name it with --network")
    max_bps = None if max_rate is None else read_rate("--max-rate", max_rate)
    inventory = resolve_hosts(hosts)
    traffic = watch(inventory, source, target, max_bps=max_bps, known=net, seconds=seconds, take_over=take_over)
    mine = sorted({*(beside or ()), *(name for each in traffic.beside for name in each.apps)})
    if output is not None and net is not None and traffic.told:
        write_network(output, net.with_cross(source, target, traffic.median, beside=mine))
    warn_beside(traffic.beside, "the cross traffic contains them")
    if as_json:
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
    emit_table(["time s", "connections"], rows)
    note(
        f"cross traffic of {traffic.median:.1f} connections "
        f"({traffic.low:.1f} to {traffic.high:.1f} from the 10th to the 90th percentile); "
        f"path {format_rate(traffic.max_bps)} ({traffic.how}); round trip {1e3 * traffic.rtt_idle_s:.2f} ms idle, "
        f"{1e3 * traffic.rtt_loaded_s:.2f} ms loaded"
    )
