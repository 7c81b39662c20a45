"""`gavotte shuffle`: move a matrix of bytes between hosts as fast as the network allows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import DryRun, Hosts, Json, Seed
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import BYTES, progress
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes

if TYPE_CHECKING:
    from gavotte.formats.inventory import Inventory
    from gavotte.formats.network import Network
    from gavotte.formats.parts.byte_matrix import HostBytes


@declared
def shuffle(
    matrix: Annotated[Path, typer.Argument(help="Matrix of bytes to move: source,target,bytes.", metavar="BYTES.csv")],
    hosts: Hosts,
    network: Path | None = option(
        "Network between the hosts. By default the hosts of the matrix are measured first.", "N.network.json"
    ),
    mode: str = option(
        "How flows share links. By default each has its own rate; connections divides by numbers of "
        "connections; standard is plain TCP without rates of ours.",
        "MODE",
        default="paced",
    ),
    max_seconds: float = option("Give up after this many seconds.", "SECONDS", default=3600.0, min=0.1),
    seed: Seed = 0,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Move a matrix of bytes so that all flows finish together, as early as possible (weighted shuffle scheduling)."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.network import read_network
    from gavotte.formats.parts.byte_matrix import read_byte_matrix, spelled_as
    from gavotte.transfer import MODES, wss_bound
    from gavotte.transfer import shuffle as carry_out

    if mode not in MODES:
        raise typer.BadParameter(f"use {', '.join(MODES)}", param_hint="--mode")
    inventory = resolve_hosts(hosts)
    flows = spelled_as(read_byte_matrix(matrix), inventory.names)
    net = read_network(network) if network is not None else _measured(inventory, flows, seed)
    warn(unknown_pairs(net))
    total = sum(flow.bytes for flow in flows)
    bound_s, link = wss_bound(net, [(flow.source, flow.target, float(flow.bytes)) for flow in flows])
    note(f"{counted(len(flows), 'flow')}, {format_bytes(total)}; at least {bound_s:.3g} s by the {link or 'network'}")
    if dry_run:
        if as_json:
            emit_json({"bytes": total, "bound_s": bound_s, "bottleneck": link, "flows": len(flows), "seed": seed})
        return
    with progress("moving", BYTES) as advance:
        done = carry_out(flows, inventory, net, mode=mode, max_seconds=max_seconds, progress=advance)
    warn(done.warnings)
    if as_json:
        emit_json(
            {
                "bytes": done.bytes,
                "mode": done.mode,
                "bound_s": done.bound_s,
                "bottleneck": done.bottleneck,
                "elapsed_s": done.elapsed_s,
                "ratio": done.ratio,
                "congestion": done.congestion,
                "seed": seed,
                "flows": done.to_records(),
            }
        )
        return
    emit_table(
        ["source", "target", "bytes", "done after s"],
        [[flow.source, flow.target, format_bytes(flow.bytes), f"{flow.finish_s:.3f}"] for flow in done.flows],
    )
    note(f"moved in {done.elapsed_s:.3f} s, {done.ratio:.3f} times the lower bound")


def _measured(inventory: Inventory, flows: Sequence[HostBytes], seed: int) -> Network:
    """Measure the Network between the hosts of the matrix.

    Raises:
        AgentError: when two hosts of a flow cannot connect.
    """
    from gavotte.errors import AgentError
    from gavotte.formats.parts.names import unknown_host
    from gavotte.measure import measure
    from gavotte.model import model

    names = {flow.source for flow in flows} | {flow.target for flow in flows}
    used = [host for host in inventory.host if host.name in names]
    if missing := sorted(names - {host.name for host in used}):
        raise unknown_host(missing[0], inventory.names, "the inventory")
    with progress("measuring", "paths") as advance:
        result = measure(inventory.model_copy(update={"host": used}), seed=seed, progress=advance)
    needed = {(flow.source, flow.target) for flow in flows if flow.bytes}
    for each in result.failures:
        if (each.source, each.target) in needed and each.failure in ("unreachable", "vanished"):
            raise AgentError(
                f"{each.source} cannot send to {each.target}: {each.reason}",
                hint="`gavotte hosts check` names the firewall rule that is missing, if one is",
            )
    return model(result.history, seed=seed)
