"""`gavotte shuffle`: move a matrix of bytes between hosts as fast as the network allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import DryRun, Encrypt, Hosts, Json, Seed
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import BYTES, progress
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes

if TYPE_CHECKING:
    from gavotte.formats.inventory import Inventory
    from gavotte.formats.network import Network
    from gavotte.formats.parts.byte_matrix import HostBytes


@dataclass(frozen=True)
class ShuffleOptions:
    """Between which hosts the bytes move, and how."""

    hosts: Hosts
    network: Path | None = option(
        "Network between the hosts. By default it is measured first, unless guarantees limit the hosts.",
        "N.network.json",
    )
    mode: str = option(
        "How flows share links. By default each has its own rate; connections divides by numbers of "
        "connections; standard is plain TCP without rates of ours.",
        "MODE",
        default="paced",
    )
    max_seconds: float = option("Give up after this many seconds.", "SECONDS", default=3600.0, min=0.1)
    encrypt: Encrypt = False
    seed: Seed = 0


@declared
def shuffle(
    matrix: Annotated[Path, typer.Argument(help="Matrix of bytes to move: source,target,bytes.", metavar="BYTES.csv")],
    asked: ShuffleOptions,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Move a matrix of bytes so that all flows finish together, as early as possible (weighted shuffle scheduling)."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.network import read_network
    from gavotte.formats.parts.byte_matrix import read_byte_matrix, spelled_as
    from gavotte.transfer import MODES
    from gavotte.transfer import shuffle as carry_out

    seed = asked.seed
    if asked.mode not in MODES:
        raise typer.BadParameter(f"use {', '.join(MODES)}", param_hint="--mode")
    inventory = resolve_hosts(asked.hosts)
    flows = spelled_as(read_byte_matrix(matrix), inventory.names)
    net = read_network(asked.network) if asked.network is not None else _measured(inventory, flows, seed)
    limit = _limit(flows, net, measured=asked.network is None)
    note(limit.line)
    if dry_run:
        if as_json:
            emit_json(
                {"bytes": limit.bytes, **limit.fields, "flows": len(flows), "encrypted": asked.encrypt, "seed": seed}
            )
        return
    with progress("moving", BYTES) as advance:
        done = carry_out(
            flows,
            inventory,
            net,
            mode=asked.mode,
            max_seconds=asked.max_seconds,
            progress=advance,
            encrypt=asked.encrypt,
        )
    warn(done.warnings)
    if as_json:
        emit_json(
            {
                "bytes": done.bytes,
                "mode": done.mode,
                **limit.fields,
                "elapsed_s": done.elapsed_s,
                "ratio": None if limit.measured else done.ratio,
                "congestion": done.congestion,
                "encrypted": done.encrypted,
                "seed": seed,
                "flows": done.to_records(),
            }
        )
        return
    emit_table(
        ["source", "target", "bytes", "done after s"],
        [[flow.source, flow.target, format_bytes(flow.bytes), f"{flow.finish_s:.3f}"] for flow in done.flows],
    )
    how = ", encrypted," if done.encrypted else ""
    note(f"moved{how} in {done.elapsed_s:.3f} s{limit.compared(done.elapsed_s)}")


@dataclass(frozen=True)
class _Limit:
    """Least time of a shuffle: a bound by a Network, or an estimate by a measurement of this moment.

    Attributes:
        line: the flows and the least time, in words.
        bytes: payload of all flows.
        seconds: the least time; None = nothing is known.
        link: the link that decides it.
        measured: whether the hosts were measured just now, so that it is an estimate.
    """

    line: str
    bytes: int
    seconds: float | None
    link: str | None
    measured: bool

    @property
    def fields(self) -> dict[str, float | str | None]:
        """The least time as fields for JSON."""
        bound_s, estimate_s = (None, self.seconds) if self.measured else (self.seconds, None)
        return {"bound_s": bound_s, "estimate_s": estimate_s, "bottleneck": self.link}

    def compared(self, elapsed_s: float) -> str:
        """Return a time compared with the least time, as the end of a sentence."""
        if not self.seconds:
            return ""
        what = f"estimate of {self.seconds:.3g} s" if self.measured else "lower bound"
        return f", {elapsed_s / self.seconds:.3f} times the {what}"


def _limit(flows: Sequence[HostBytes], network: Network | None, *, measured: bool) -> _Limit:
    from gavotte.transfer import wss_bound

    total = sum(flow.bytes for flow in flows)
    line = f"{counted(len(flows), 'flow')}, {format_bytes(total)}"
    if network is None:
        return _Limit(f"{line}; not paced", total, None, None, measured)
    warn(unknown_pairs(network))
    seconds, link = wss_bound(network, [(flow.source, flow.target, float(flow.bytes)) for flow in flows])
    least = f"estimated {seconds:.3g} s" if measured else f"at least {seconds:.3g} s"
    return _Limit(f"{line}; {least} by the {link or 'network'}", total, seconds, link, measured)


def _measured(inventory: Inventory, flows: Sequence[HostBytes], seed: int) -> Network | None:
    """Measure the Network between the hosts of the matrix; None = guarantees limit hosts, so no rate would last.

    Raises:
        AgentError: when two hosts of a flow cannot connect.
    """
    from gavotte.errors import AgentError
    from gavotte.formats.parts.names import unknown_host
    from gavotte.measure import measure
    from gavotte.model import model
    from gavotte.transfer import guaranteed_hosts, unpaced_warning

    names = {flow.source for flow in flows} | {flow.target for flow in flows}
    used = [host for host in inventory.host if host.name in names]
    if missing := sorted(names - {host.name for host in used}):
        raise unknown_host(missing[0], inventory.names, "the inventory")
    if limited := guaranteed_hosts(inventory, {flow.source for flow in flows if flow.bytes}):
        warn([unpaced_warning(limited)])
        return None
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
