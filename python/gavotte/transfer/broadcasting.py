"""Brings a file from one host to many: who is to have it where, and how, before a byte is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile

from gavotte.agents import Budget, enrolled
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.names import unknown_host
from gavotte.formats.network import Network
from gavotte.transfer.blocktimes import BlockTimes, default_path
from gavotte.transfer.conducting import CONGESTION, CORNETS, READ_S, Pacing, Run, Watch
from gavotte.transfer.outcome import BroadcastResult, Receiver
from gavotte.transfer.planning import BroadcastPlan, Mechanism, nothing_known, plan_broadcast
from gavotte.transfer.probing import look

HOST = "{host}"
"""Stands in an output path for the receiver's name."""

Buffer = bytes | bytearray | memoryview


def broadcast(
    path: str | Buffer,
    inventory: Inventory,
    source: str,
    output: str,
    *,
    targets: Sequence[str] | None = None,
    network: Network | None = None,
    mechanism: Mechanism = "auto",
    block_bytes: int = 0,
    max_seconds: float = 3600.0,
    wait_s: float = 0.0,
    times: Path | None = None,
    seed: int = 0,
    planned: Callable[[BroadcastPlan], None] | None = None,
    watch: Watch | None = None,
    pacing: Pacing | None = None,
) -> BroadcastResult:
    """Brings a file from one host to others, each block checked against its hash.

    A copy is at `PATH.partial` until it is whole. What an earlier broadcast has left there is not sent again.

    Args:
        path: of the file at the source, absolute; or an object of bytes, if the source is on this machine.
        inventory: where the hosts are.
        source: the host that has it.
        output: where copies are to be, absolute, with `{host}` for each receiver's name.
        targets: who is to have it; None = all hosts but the source.
        network: what is known of the hosts; None = each one's port is probed for half a second.
        mechanism: how; `auto` takes the fastest predicted.
        block_bytes: what is checked and asked for again as a whole; 0 = as suits the file.
        max_seconds: when to give up.
        wait_s: receivers that are not there, or go, are tried again until the others have it, and so much longer.
        times: where Cornet's block transfer times are kept, from which `clustering` learns; None = in the user's cache.
        seed: of all random choices.
        planned: told of the plan before the start.
        watch: told how far each receiver is.
        pacing: says how fast each flow may be and who else is to have it; None = as fast as the network, and nobody.

    Returns:
        what became of each receiver: one that is lost does not keep others from having all.

    Raises:
        GavotteError: when hosts, file and output do not belong together.
        AgentError: when the source cannot send.
    """
    receivers = receivers_of(inventory, source, targets)
    if not isinstance(path, str):
        with _as_file(path, inventory, source) as file:
            return broadcast(
                file,
                inventory,
                source,
                output,
                targets=targets,
                network=network,
                mechanism=mechanism,
                block_bytes=block_bytes,
                max_seconds=max_seconds,
                wait_s=wait_s,
                times=times,
                seed=seed,
                planned=planned,
                watch=watch,
                pacing=pacing,
            )
    paths = output_paths(output, receivers)
    used = inventory.model_copy(update={"host": [each for each in inventory.host if each.name in {source, *receivers}]})
    # Nobody knows yet how large the file is; agents have caps of their own.
    budget = Budget(max_bytes=1 << 62, max_seconds=max_seconds + READ_S)
    with enrolled(used, budget, purpose=f"broadcast {PurePosixPath(path).name}", shared=True) as fleet:
        begin_s = time.monotonic()
        if source in fleet.missing:
            raise AgentError(f"the source {source} cannot be used: {fleet.missing[source]}")
        manifest = fleet.manifest(source, path, block_bytes=block_bytes, deadline_s=READ_S)
        there = [name for name in receivers if name not in fleet.missing]
        if network is None and there and manifest.bytes:
            network = look(fleet, [source, *there], of=[source, *receivers], congestion=CONGESTION)
        if source in fleet.away:
            raise AgentError(f"the source {source} cannot be used: {fleet.away[source]}")
        everybody = [source, *receivers]
        if pacing is not None and network is not None:
            # Whoever may join has a place from the start.
            names = {host.name for host in inventory.host} - set(everybody)
            everybody += [name for name in network.names if name in names]
        known = nothing_known(everybody) if network is None else _with_all(network, everybody)
        kept = BlockTimes.read(times or default_path(used)) if mechanism in CORNETS else None
        inferred = kept.partitions(known.names, seed=seed) if kept and mechanism == "clustering" else None
        plan = plan_broadcast(known, source, receivers, manifest.bytes, mechanism=mechanism, inferred=inferred)
        if planned is not None:
            planned(plan)
        result = BroadcastResult(plan, [Receiver(name, paths[name]) for name in receivers])
        at = {name: index for index, name in enumerate(known.names)}
        run = Run(fleet, inventory, manifest, path, result, at, watch, begin_s, kept, seed, pacing, wait_s)
        run.run(max_seconds)
        if kept is not None:
            kept.write()
    return result


def plan_file(
    path: str,
    inventory: Inventory,
    source: str,
    output: str,
    *,
    targets: Sequence[str] | None = None,
    network: Network | None = None,
    mechanism: Mechanism = "auto",
) -> BroadcastPlan:
    """What `broadcast` would do, with only the source asked, for the size of its file.

    The arguments are those of `broadcast`.

    Raises:
        GavotteError: when hosts, file and output do not belong together.
        AgentError: when the source's agent does not answer.
    """
    receivers = receivers_of(inventory, source, targets)
    output_paths(output, receivers)
    only = inventory.model_copy(update={"host": [each for each in inventory.host if each.name == source]})
    with enrolled(only, Budget(max_bytes=1, max_seconds=READ_S), purpose="plan a broadcast", shared=True) as fleet:
        size_bytes = fleet.manifest(source, path, deadline_s=READ_S).bytes
    known = nothing_known([source, *receivers]) if network is None else _with_all(network, [source, *receivers])
    return plan_broadcast(known, source, receivers, size_bytes, mechanism=mechanism)


def output_paths(output: str, receivers: Sequence[str]) -> dict[str, str]:
    """Where each receiver's copy is to be.

    Raises:
        GavotteError: when it is not the absolute path of a file.
    """
    where = PurePosixPath(output)
    if not where.is_absolute() or output.endswith("/") or ".." in where.parts:
        raise GavotteError(
            f"the output path `{output}` is not the absolute path of a file", hint="give one, as `/tmp/copy-{host}`"
        )
    return {name: output.replace(HOST, name) for name in receivers}


@contextmanager
def _as_file(content: Buffer, inventory: Inventory, source: str) -> Iterator[str]:
    """Puts an object of bytes into a file in memory that the source's agent can read, for as long as it is needed."""
    host = next(host for host in inventory.host if host.name == source)
    if not host.agent.startswith("unix:"):
        raise GavotteError(f"{source} cannot read this process's memory", hint="write a file there and name it")
    memory = Path("/dev/shm")
    with NamedTemporaryFile(prefix="gavotte-", dir=memory if memory.is_dir() else None) as file:
        file.write(content)
        file.flush()
        yield file.name


def receivers_of(inventory: Inventory, source: str, targets: Sequence[str] | None) -> list[str]:
    """Who is to have it: `targets`, or all hosts but the source.

    Raises:
        GavotteError: for hosts that the inventory does not have, one that is named twice, or nobody.
    """
    names = [host.name for host in inventory.host]
    wanted = [name for name in names if name != source] if targets is None else list(targets)
    for name in (source, *wanted):
        if name not in names:
            raise unknown_host(name, names, "the inventory")
    if source in wanted:
        raise GavotteError(f"`{source}` has the file already", hint="leave the source out of the receivers")
    if len(set(wanted)) < len(wanted):
        raise GavotteError("a receiver is named twice", hint="name each once")
    if not wanted:
        raise GavotteError("there is nobody to send to", hint="an inventory needs a host besides the source")
    return wanted


def _with_all(network: Network, names: Sequence[str]) -> Network:
    """The Network of some hosts. Of those that it does not have nothing is known."""
    known = network.names
    if all(name in known for name in names):
        return network.of_hosts([known.index(name) for name in names])
    missing = next(name for name in names if name not in known)
    if len(set(names) & set(known)) == 0:
        raise GavotteError(f"`{missing}` is not a host of the Network", hint="measure these hosts")
    raise GavotteError(f"`{missing}` is not a host of the Network", hint="measure it, or leave it out with --to")
