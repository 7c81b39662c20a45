"""Send a file from one host to many. Receivers and paths are checked, and a plan is made, before a byte is sent."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile

from gavotte.agents import Budget, enrolled
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.transfer.blocktimes import BlockTimes, default_path
from gavotte.transfer.caching import cut_for_caches
from gavotte.transfer.conducting import READ_S, Run
from gavotte.transfer.guaranteed import unpaced_warning
from gavotte.transfer.knocking import Knock
from gavotte.transfer.outcome import BroadcastResult
from gavotte.transfer.planning import (
    CORNETS,
    BroadcastPlan,
    Mechanism,
    far_apart,
    far_block_bytes,
    nothing_known,
    plan_broadcast,
)
from gavotte.transfer.probing import look
from gavotte.transfer.question import SILENT, BroadcastQuestion, BroadcastSession, Buffer
from gavotte.transfer.room import check_room
from gavotte.transfer.spelling import spelled_network


def broadcast(
    content: str | Buffer,
    inventory: Inventory,
    source: str,
    output: str,
    *,
    targets: Sequence[str] | None = None,
    network: Network | None = None,
    mechanism: Mechanism = "auto",
    session: BroadcastSession = SILENT,
) -> BroadcastResult:
    """Send a file from one host to others; `send` for a question of a few nouns.

    A `BroadcastQuestion` for `send` has further fields, such as `encrypt`.

    Args:
        content: as for `BroadcastQuestion`, like the following arguments.
        inventory: the hosts' addresses and agents.
        source: the host that has it.
        output: absolute path of the copies, with `{host}` for each receiver's name.
        targets: receiving hosts; None = all hosts but the source.
        network: the Network between the hosts; None = each host's port is probed for half a second.
        mechanism: how; `auto` chooses the one with the shortest predicted time.
        session: what to call meanwhile.
    """
    return send(BroadcastQuestion(content, inventory, source, output, targets, network, mechanism), session)


def send(question: BroadcastQuestion, session: BroadcastSession = SILENT) -> BroadcastResult:
    """Send a file from one host to others, each block checked against its hash.

    A copy is at `PATH.partial` until it is complete. Blocks that an earlier broadcast left in it are not sent again.

    Args:
        question: what to send where, and how.
        session: what to call meanwhile.

    Returns:
        the outcome of each receiver. A lost receiver does not keep others from finishing.

    Raises:
        GavotteError: when hosts, file and output do not belong together.
        AgentError: when the source cannot send, no receiver has space for its copy, or a firewall keeps all receivers
            from the source.
    """
    source, receivers, network = question.sender, question.receivers, question.network
    if not isinstance(question.content, str):
        with _as_file(question.content, question.inventory, source) as file:
            return send(replace(question, content=file), session)
    _ = question.paths
    everybody = [source, *receivers]
    used = question.hosts(everybody)
    # The size of the file is not known yet; agents have limits of their own.
    budget = Budget(max_bytes=1 << 62, max_seconds=question.max_seconds + READ_S)
    purpose = f"broadcast {PurePosixPath(question.content).name}"
    with enrolled(used, budget, purpose=purpose, shared=True) as fleet:
        begin_s = time.monotonic()
        if source in fleet.missing:
            raise AgentError(f"the source {source} cannot be used: {fleet.missing[source]}")
        present = [name for name in receivers if name not in fleet.missing]
        if present == receivers:
            # Nothing is known of missing ones, which may join later.
            check_room(fleet, source, question.content, question.paths)
        # A host that is missing now may be one that the source accepts.
        knock = Knock(fleet, source, present) if present == receivers and session.pacing is None else None
        most_bytes = 0
        if network is not None and far_apart(network, everybody):
            most_bytes = far_block_bytes(network, everybody)
        if question.cache is not None and not question.block_bytes:
            manifest = cut_for_caches(fleet, source, question.content)
        else:
            manifest = fleet.manifest(
                source,
                question.content,
                block_bytes=question.block_bytes,
                most_block_bytes=most_bytes,
                deadline_s=READ_S,
            )
        probed = network is None or question.probed
        limited = fleet.guaranteed_bps() if probed else {}
        if limited:
            network = None
        elif network is None and present and manifest.bytes:
            network = look(fleet, [source, *present], of=everybody)
            if knock is not None and (reason := knock.reason(wait=True)):
                raise AgentError(reason)
        if source in fleet.away:
            raise AgentError(f"the source {source} cannot be used: {fleet.away[source]}")
        if session.pacing is not None and network is not None:
            # Hosts that may join later have an index from the start.
            names = set(question.inventory.names) - set(everybody)
            everybody += [name for name in spelled_network(network, names).names if name in names]
        net = nothing_known(everybody) if network is None else _with_all(network, everybody)
        mechanism = question.mechanism
        block_times = BlockTimes.read(session.times or default_path(used)) if mechanism in CORNETS else None
        inferred = None
        if block_times and mechanism == "clustering":
            inferred = block_times.partitions(net.names, seed=question.seed)
        plan = plan_broadcast(
            net, source, receivers, manifest.bytes, mechanism=mechanism, inferred=inferred, probed=probed
        )
        if session.planned is not None:
            session.planned(plan)
        run = Run(fleet, question, session, manifest, plan, net.names, block_times, begin_s)
        if knock is not None:
            run.doubt = knock.reason
        result = run.run()
        if block_times is not None:
            block_times.write()
    if limited:
        warning = unpaced_warning([name for name in everybody if name in limited])
        result = replace(result, warnings=[*result.warnings, warning])
    return result


def plan_file(question: BroadcastQuestion) -> BroadcastPlan:
    """Return the plan of `send`. Only the source is asked, for the size of its file.

    Args:
        question: what to send where, and how.

    Raises:
        GavotteError: when hosts, file and output do not belong together.
        AgentError: when the source's agent does not answer.
    """
    source, receivers, content = question.sender, question.receivers, question.content
    _ = question.paths
    if isinstance(content, str):
        only = question.hosts([source])
        with enrolled(only, Budget(max_bytes=1, max_seconds=READ_S), purpose="plan a broadcast", shared=True) as fleet:
            about = fleet.space({}, source=(source, content))[source]
        if isinstance(about, AgentError):
            raise AgentError(f"{source}: {about}", failure=about.failure)
        size_bytes = about.bytes
    else:
        size_bytes = memoryview(content).nbytes
    names = [source, *receivers]
    net = nothing_known(names) if question.network is None else _with_all(question.network, names)
    return plan_broadcast(net, source, receivers, size_bytes, mechanism=question.mechanism, probed=question.probed)


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
