"""Start the keeper of a lab, wait until it is ready, and end it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import pickle
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import tomli_w

from gavotte.agents.binary import agent_binary
from gavotte.agents.runtime import LAB_HOSTS, runtime_dir
from gavotte.errors import AgentError, GavotteError, UnsupportedError
from gavotte.formats.inventory import FORMAT as HOSTS_FORMAT
from gavotte.formats.topology import Topology
from gavotte.lab import crew, launcher, state
from gavotte.lab.keeper import NAMESPACES, STAY, Order
from gavotte.lab.layout import Layout, layout_of
from gavotte.lab.state import LabState, Process

logger = logging.getLogger(__name__)

START_DEADLINE_S = 20.0
START_DEADLINE_PER_NODE_S = 0.1
STOP_DEADLINE_S = 5.0
SOCKET_PATH_BYTES = 107

_ERRORS = {error.__name__: error for error in (GavotteError, UnsupportedError, AgentError)}


@contextmanager
def started(
    topology: Topology, source: str, name: str, *, agents: bool, stay: bool, seed: int
) -> Iterator[tuple[Path, LabState]]:
    """Start a lab; at the end of the `with` block let it stay, or end it.

    Args:
        topology: the cloud to emulate.
        source: origin of the topology.
        name: name of the lab's folder.
        agents: whether to start an agent on each host.
        stay: whether the lab outlives the block, once it is up.
        seed: decides which packets links lose, and their jitter.

    Yields:
        Its folder and its record.

    Raises:
        GavotteError: when a lab of that name is up already, or the kernel refuses.
        UnsupportedError: when this machine cannot hold a lab.
    """
    layout = layout_of(topology)
    binary = agent_binary() if agents or layout.wires else None
    launcher.check()
    runtime = runtime_dir()
    longest = max(len(os.fsencode(crew.socket_path(runtime / name, host))) for host, _ in layout.hosts)
    if agents and longest > SOCKET_PATH_BYTES:
        raise GavotteError(
            f"the runtime directory's path is {longest - SOCKET_PATH_BYTES} bytes too long for Unix sockets",
            hint="set GAVOTTE_RUNTIME_DIR to a shorter path",
        )
    record = state.new_record(
        secrets.token_hex(8), topology=source, session=not stay, agents=agents, created_unix_s=time.time()
    )
    folder = state.claim(runtime, name, record)
    answers: dict[str, Any] = {}
    done = False
    deadline_s = START_DEADLINE_S + START_DEADLINE_PER_NODE_S * len(layout.nodes)
    logger.info(
        "lab %s: building %d hosts and %d switches in %s", name, len(layout.hosts), len(layout.switches), folder
    )
    order = Order(layout, folder, record.id, os.getpid(), binary, agents, seed, deadline_s)
    try:
        (folder / NAMESPACES).mkdir()
        with _launched(folder) as (first, life, reports):
            with contextlib.suppress(BrokenPipeError):  # then it has ended, as the reports below show
                life.write(pickle.dumps(order))
                life.flush()
            _hear(reports, folder, time.monotonic() + deadline_s, answers)
            first.wait()
            logger.info("lab %s: up, its keeper is process %d", name, answers["keeper"].pid)
            record = dataclasses.replace(
                record,
                keeper=answers["keeper"],
                rootless=answers["rootless"],
                mount_namespace=answers["mount_namespace"],
                hosts=layout.hosts,
                switches=layout.switches,
            )
            state.write_state(folder, record)
            launcher.write_rsh(folder, record)
            _write_hosts(folder, layout, topology)
            if stay:
                life.write(STAY)
                life.flush()
                done = True
            yield folder, record
    finally:
        if not done:
            if answers.get("keeper") is not None:
                end(answers["keeper"])
            state.discard(folder, record.id)


def end(keeper: Process) -> None:
    """End a keeper, and with it its whole lab. Return when it is gone.

    Raises:
        GavotteError: when it does not end.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        logger.debug("sending %s to the lab's keeper, process %d", number.name, keeper.pid)
        state.signal_process(keeper, number)
        if state.wait_gone(keeper, STOP_DEADLINE_S):
            return
    raise GavotteError(f"the lab's keeper, process {keeper.pid}, does not exit")


@contextmanager
def _launched(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """Run a process that forks the keeper and exits.

    Yields:
        The process; the keeper's stdin, which keeps the lab alive until closed; the keeper's stdout.
    """
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    # Python 3.10 has no -P: it would also look for modules in the folder that it starts in.
    program = "import sys; sys.path[:] = filter(None, sys.path); from gavotte.lab.keeper import main; main()"
    with (folder / "keeper.log").open("wb") as log:
        first = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env={**os.environ, **launcher.environment(folder), "PYTHONPATH": os.pathsep.join(filter(None, path))},
            start_new_session=True,
        )
    assert first.stdin is not None
    assert first.stdout is not None
    try:
        yield first, first.stdin, first.stdout
    finally:
        with contextlib.suppress(BrokenPipeError):
            first.stdin.close()
        first.stdout.close()
        first.wait()


def _hear(reports: IO[bytes], folder: Path, deadline: float, answers: dict[str, Any]) -> None:
    """Collect the keeper's reports until it is ready.

    Args:
        reports: the pipe with the reports.
        folder: the lab's folder.
        deadline: on the monotonic clock, in seconds.
        answers: the reports by key, filled even if this raises; `keeper` is the keeper's `Process`.

    Raises:
        GavotteError: when the keeper reports an error, or nothing.
    """
    pending = b""
    while "ready" not in answers:
        if not select.select([reports], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise GavotteError("the lab did not come up in time", hint=_last_words(folder))
        chunk = os.read(reports.fileno(), 65536)
        if not chunk:
            raise GavotteError("the lab's keeper exited while starting", hint=_last_words(folder))
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            logger.debug("the keeper reports %s", line.decode(errors="replace"))
            answers |= json.loads(line)
        if "pid" in answers:
            answers["keeper"] = Process.of(answers.pop("pid"))
        if "error" in answers:
            raise _ERRORS.get(answers["kind"], GavotteError)(answers["error"], hint=answers["hint"])
    if answers["keeper"] is None:
        raise GavotteError("the lab's keeper exited while starting", hint=_last_words(folder))


def _last_words(folder: Path) -> str:
    lines = (folder / "keeper.log").read_text(errors="replace").strip().splitlines()
    return f"it printed: {lines[-1][:300]}" if lines else ""


def _write_hosts(folder: Path, layout: Layout, topology: Topology) -> None:
    addresses = dict(layout.hosts)
    hosts = [
        {
            "name": host.name,
            "address": addresses[host.name],
            "agent": f"unix:{crew.socket_path(folder, host.name)}",
            "cpus": float(host.cpus),
            "memory_bytes": host.memory_bytes,
            "storage_bytes": host.storage_bytes,
        }
        for host in topology.host
    ]
    state.write_aside(folder / LAB_HOSTS.name, tomli_w.dumps({"format": HOSTS_FORMAT, "host": hosts}))
