"""Sends a file from one host to many: checks receivers and paths and makes a plan before a byte is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile

from gavotte.agents import Budget, enrolled
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.names import known_as, unknown_host
from gavotte.formats.network import Network
from gavotte.transfer.blocktimes import BlockTimes, default_path
from gavotte.transfer.conducting import CORNETS, READ_S, Pacing, Run, Watch
from gavotte.transfer.knocking import Knock
from gavotte.transfer.outcome import BroadcastResult, Receiver
from gavotte.transfer.planning import (
    FAR_BLOCK_BYTES,
    BroadcastPlan,
    Mechanism,
    far_apart,
    nothing_known,
    plan_broadcast,
)
from gavotte.transfer.probing import look
from gavotte.transfer.spelling import spelled_network

HOST = "{host}"
"""Placeholder for the receiver's name in an output path."""

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
    """Send a file from one host to others, each block checked against its hash.

    A copy is at `PATH.partial` until it is complete. Blocks that an earlier broadcast left in it are not sent again.

    Args:
        path: absolute path of the file at the source; or an object of bytes, if the source is on this machine.
        inventory: the hosts' addresses and agents.
        source: the host that has it.
        output: absolute path of the copies, with `{host}` for each receiver's name.
        targets: receiving hosts; None = all hosts but the source.
        network: the Network between the hosts; None = each host's port is probed for half a second.
        mechanism: how; `auto` chooses the one with the shortest predicted time.
        block_bytes: unit of checking and of repeated requests; 0 = a size that suits the file.
        max_seconds: when to give up.
        wait_s: missing receivers are retried until the others have it, plus this long.
        times: file with Cornet's block transfer times, from which `clustering` learns; None = in the user's cache.
        seed: seed of all random choices.
        planned: called with the plan before the start.
        watch: called with the progress of each receiver.
        pacing: decides each flow's rate limit and adds receivers; None = no limits, no further receivers.

    Returns:
        the outcome of each receiver. A lost receiver does not keep others from finishing.

    Raises:
        GavotteError: when hosts, file and output do not belong together.
        AgentError: when the source cannot send, or a firewall keeps all receivers from it.
    """
    source, receivers = known_as(source, inventory.names), receivers_of(inventory, source, targets)
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
    # The size of the file is not known yet; agents have limits of their own.
    budget = Budget(max_bytes=1 << 62, max_seconds=max_seconds + READ_S)
    with enrolled(used, budget, purpose=f"broadcast {PurePosixPath(path).name}", shared=True) as fleet:
        begin_s = time.monotonic()
        everybody = [source, *receivers]
        if source in fleet.missing:
            raise AgentError(f"the source {source} cannot be used: {fleet.missing[source]}")
        present = [name for name in receivers if name not in fleet.missing]
        # A host that is missing now may be one that the source accepts.
        knock = Knock(fleet, source, present) if present == receivers and pacing is None else None
        most_bytes = FAR_BLOCK_BYTES if network is not None and far_apart(network, everybody) else 0
        manifest = fleet.manifest(source, path, block_bytes=block_bytes, most_block_bytes=most_bytes, deadline_s=READ_S)
        if network is None and present and manifest.bytes:
            network = look(fleet, [source, *present], of=[source, *receivers])
            if knock is not None and (reason := knock.reason(wait=True)):
                raise AgentError(reason)
        if source in fleet.away:
            raise AgentError(f"the source {source} cannot be used: {fleet.away[source]}")
        if pacing is not None and network is not None:
            # Hosts that may join later have an index from the start.
            names = {host.name for host in inventory.host} - set(everybody)
            everybody += [name for name in spelled_network(network, names).names if name in names]
        net = nothing_known(everybody) if network is None else _with_all(network, everybody)
        block_times = BlockTimes.read(times or default_path(used)) if mechanism in CORNETS else None
        inferred = block_times.partitions(net.names, seed=seed) if block_times and mechanism == "clustering" else None
        plan = plan_broadcast(net, source, receivers, manifest.bytes, mechanism=mechanism, inferred=inferred)
        if planned is not None:
            planned(plan)
        result = BroadcastResult(plan, [Receiver(name, paths[name]) for name in receivers])
        at = {name: index for index, name in enumerate(net.names)}
        run = Run(fleet, inventory, manifest, path, result, at, watch, begin_s, block_times, seed, pacing, wait_s)
        if knock is not None:
            run.doubt = knock.reason
        run.run(max_seconds)
        if block_times is not None:
            block_times.write()
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
    """Return the plan of `broadcast`. Only the source is asked, for the size of its file.

    The arguments are those of `broadcast`.

    Raises:
        GavotteError: when hosts, file and output do not belong together.
        AgentError: when the source's agent does not answer.
    """
    source, receivers = known_as(source, inventory.names), receivers_of(inventory, source, targets)
    output_paths(output, receivers)
    only = inventory.model_copy(update={"host": [each for each in inventory.host if each.name == source]})
    with enrolled(only, Budget(max_bytes=1, max_seconds=READ_S), purpose="plan a broadcast", shared=True) as fleet:
        size_bytes = fleet.manifest(source, path, deadline_s=READ_S).bytes
    net = nothing_known([source, *receivers]) if network is None else _with_all(network, [source, *receivers])
    return plan_broadcast(net, source, receivers, size_bytes, mechanism=mechanism)


def output_paths(output: str, receivers: Sequence[str]) -> dict[str, str]:
    """Return the path of each receiver's copy.

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
    """Put an object of bytes into a file in memory that the source's agent can read, while the context lasts."""
    host = next(host for host in inventory.host if host.name == source)
    if not host.agent.startswith("unix:"):
        raise GavotteError(
            f"{source} cannot read this process's memory", hint="write a file on that host and give its path"
        )
    memory = Path("/dev/shm")
    with NamedTemporaryFile(prefix="gavotte-", dir=memory if memory.is_dir() else None) as file:
        file.write(content)
        file.flush()
        yield file.name


def receivers_of(inventory: Inventory, source: str, targets: Sequence[str] | None) -> list[str]:
    """Return the receivers: `targets`, or all hosts but the source.

    Raises:
        GavotteError: for hosts that the inventory does not have, one that is named twice, or none at all.
    """
    names = [host.name for host in inventory.host]
    source = known_as(source, names)
    receivers = (
        [name for name in names if name != source] if targets is None else [known_as(each, names) for each in targets]
    )
    for name in (source, *receivers):
        if name not in names:
            raise unknown_host(name, names, "the inventory")
    if source in receivers:
        raise GavotteError(f"`{source}` has the file already", hint="leave the source out of the receivers")
    if len(set(receivers)) < len(receivers):
        raise GavotteError("a receiver is named twice", hint="name each once")
    if not receivers:
        raise GavotteError("there is no receiver", hint="an inventory needs a second host in addition to the source")
    return receivers


def _with_all(network: Network, names: Sequence[str]) -> Network:
    """Return the Network of some hosts. A host that it does not have gets unknown rates."""
    network = spelled_network(network, names)
    all_names = network.names
    if all(name in all_names for name in names):
        return network.of_hosts([all_names.index(name) for name in names])
    missing = next(name for name in names if name not in all_names)
    if len(set(names) & set(all_names)) == 0:
        raise GavotteError(f"`{missing}` is not a host of the Network", hint="measure these hosts")
    raise GavotteError(f"`{missing}` is not a host of the Network", hint="measure it, or leave it out with --to")
