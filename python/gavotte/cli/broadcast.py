"""`gavotte broadcast`: send one file to many hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.options import Hosts, Json, Seed, to_write
from gavotte.cli.output import emit_json, emit_table, note, progress, warn_of_unknown
from gavotte.errors import GavotteError
from gavotte.formats.rates import format_bytes

if TYPE_CHECKING:
    from gavotte.transfer.outcome import BroadcastResult
    from gavotte.transfer.planning import BroadcastPlan


def broadcast(
    file: Annotated[str, typer.Argument(help="File or folder to send, as a path on the --from host.", metavar="FILE")],
    hosts: Hosts,
    source: Annotated[str, typer.Option("--from", help="Host that has the file.", metavar="HOST")],
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", help="Path of the copies; {host} is replaced by the receiver's name.", metavar="PATH"
        ),
    ],
    to: Annotated[
        list[str] | None,
        typer.Option("--to", help="Receiving hosts, separated by commas. By default all others.", metavar="HOST,..."),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            "--network",
            help="Network between the hosts. By default a short probe of each host's port.",
            metavar="N.network.json",
        ),
    ] = None,
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            help="Mechanism of the broadcast.",
            metavar="NAME",
        ),
    ] = "auto",
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", help="Give up after this many seconds.", min=0.1, metavar="SECONDS")
    ] = 3600.0,
    wait_s: Annotated[
        float,
        typer.Option(
            "--wait",
            help="Keep retrying unreachable hosts until the others finish, plus this long.",
            min=0,
            metavar="SECONDS",
        ),
    ] = 0.0,
    times: Annotated[
        Path | None,
        to_write("File of Cornet's block transfer times, from which clustering learns.", "FILE.json", "--times"),
    ] = None,
    seed: Seed = 0,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the plan, its predicted time and the lower bound, and send nothing."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Send a file from one host to many, as fast as the network allows."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.network import read_network
    from gavotte.transfer.broadcasting import broadcast as send
    from gavotte.transfer.broadcasting import plan_file

    inventory = resolve_hosts(hosts)
    targets = None if to is None else [name for part in to for name in part.split(",") if name]
    net = None if network is None else read_network(network)
    if net is not None:
        warn_of_unknown(net)
    path, where = str(Path(file).absolute()), str(Path(output).absolute()) if not output.endswith("/") else output
    common: dict[str, Any] = {"targets": targets, "network": net, "mechanism": mechanism}
    if dry_run:
        plan = plan_file(path, inventory, source, where, **common)
        _planned(plan)
        if as_json:
            emit_json(_as_json(plan, None, seed))
        return
    with progress("sending") as advance:
        having: dict[str, int] = {}

        def watch(host: str, done: int, total: int) -> None:
            having[host] = done
            advance(sum(having.values()), total * max(1, len(having)))

        result = send(
            path,
            inventory,
            source,
            where,
            **common,
            max_seconds=max_seconds,
            wait_s=wait_s,
            times=times,
            seed=seed,
            planned=_planned,
            watch=watch,
        )
    for line in result.changes:
        note(line)
    if as_json:
        emit_json(_as_json(result.plan, result, seed))
    else:
        emit_table(
            ["receiver", "done after s", "failure"],
            [
                [each.host, "" if each.finish_s is None else f"{each.finish_s:.3f}", each.error]
                for each in result.receivers
            ],
            words=["failure"],
        )
    if result.elapsed_s is not None:
        over = (
            "" if result.ratio is None else f", {result.ratio:.2f} times the lower bound of {result.plan.bound_s:.3f} s"
        )
        port = f", set by {result.plan.port}" if result.plan.port else ""
        note(f"{len(result.receivers) - len(result.lost)} copies in {result.elapsed_s:.3f} s{over}{port}")
    if result.lost:
        lost = "; ".join(f"{host}: {why}" for host, why in result.lost.items())
        unwritten = any(".partial: " in why for why in result.lost.values())
        raise GavotteError(
            f"{len(result.lost)} of {len(result.receivers)} receivers did not get the file: {lost}",
            hint="give -o a folder that each receiver has, may write to and has room in" if unwritten else "",
        )


def _planned(plan: BroadcastPlan) -> None:
    predicted = "no prediction without a Network" if plan.predicted_s is None else f"predicted {plan.predicted_s:.3g} s"
    bound = "" if plan.bound_s is None else f", lower bound {plan.bound_s:.3g} s ({plan.port})"
    note(f"{format_bytes(plan.bytes)} to {len(plan.receivers)} receivers by {plan.mechanism}: {predicted}{bound}")


def _as_json(plan: BroadcastPlan, result: BroadcastResult | None, seed: int) -> dict[str, Any]:
    if result is None:
        receivers = [{"host": host, "finish_s": None, "ok": False, "error": ""} for host in plan.receivers]
    else:
        receivers = result.to_records()
    return {
        "bytes": plan.bytes,
        "mechanism": plan.mechanism,
        "bound_s": plan.bound_s,
        "port": plan.port,
        "predicted_s": plan.predicted_s,
        "prices_s": plan.prices,
        "elapsed_s": None if result is None else result.elapsed_s,
        "ratio": None if result is None else result.ratio,
        "setup_s": None if result is None else result.setup_s,
        "checksum": None if result is None else result.checksum,
        "source_sent_bytes": None if result is None else result.source_sent_bytes,
        "changes": [] if result is None else result.changes,
        "seed": seed,
        "receivers": receivers,
    }
