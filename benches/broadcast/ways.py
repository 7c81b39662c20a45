"""The ways to copy a file to many hosts: ours, and other programs'."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benches.broadcast import swarm
from benches.broadcast.cases import Case
from benches.broadcast.faulty import HAPPENS, LIMIT_S
from benches.mpi import available, launch

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.transfer import BroadcastQuestion, BroadcastSession, send

BLIND = "without-network"
"""`auto` without a Network, as a newcomer types it. Its times include the probe and all set-up."""

OURS = ("auto", "chain", "tree", "binomial", "mesh", "packing", "cornet", "topology", "clustering")
PEERS = ("http", "libtorrent", "openmpi", "openmpi-pipeline")
PORT = 8000

MPI = """
import hashlib, json, sys, time
import numpy as np
from mpi4py import MPI
world, path, size = MPI.COMM_WORLD, sys.argv[1], int(sys.argv[2])
data = np.fromfile(path, np.uint8) if world.rank == 0 else np.empty(size, np.uint8)
world.Barrier()
begin = time.monotonic()
world.Bcast(data, 0)
took = world.gather((time.monotonic() - begin, hashlib.blake2b(data).hexdigest()))
if world.rank == 0:
    print(json.dumps({"seconds": [each[0] for each in took[1:]], "same": len({each[1] for each in took}) == 1}))
"""

FETCH = """
import shutil, sys, time, urllib.request
begin = time.monotonic()
with urllib.request.urlopen(sys.argv[1], timeout=280) as reply, open(sys.argv[2], "wb") as copy:
    shutil.copyfileobj(reply, copy, 1 << 16)
print(time.monotonic() - begin)
"""


@dataclass(frozen=True)
class Outcome:
    """One run.

    Attributes:
        seconds: of each receiver that has it.
        partitions: the partitions that a Cornet respected, by host; None = it had none.
        setup_s: time before the first byte, where `seconds` include it.
    """

    seconds: list[float]
    partitions: tuple[int, ...] | None = None
    setup_s: float = 0.0


Way = Callable[[lab.Session, Case, Path, Path], Outcome]
"""Runs broadcasts in a lab, with a folder for the copies."""


def ours(
    session: lab.Session,
    cloud: Case,
    file: Path,
    scratch: Path,
    *,
    mechanism: str,
    times: Path,
    dying: str | None = None,
    fault: str = "",
    blind: bool = False,
) -> Outcome:
    """Broadcast by one of our mechanisms; something happens to the host `dying` when it has half."""
    watched: list[str] = []

    def watch(name: str, held: int, total: int) -> None:
        if name == dying and 2 * held >= total and not watched:
            watched.append(name)
            HAPPENS[fault](session, name)

    question = BroadcastQuestion(
        str(file),
        read_inventory(session.hosts_file),
        "h0",
        str(scratch / "copy-{host}"),
        network=None if blind else cloud.network,
        mechanism=mechanism,  # type: ignore[arg-type]
        max_seconds=LIMIT_S,
    )
    result = send(question, BroadcastSession(watch=watch, times=times))
    if set(result.lost) != set(watched):
        raise GavotteError(f"{mechanism} lost {result.lost}")
    setup_s = result.setup_s if blind else 0.0
    seconds = [setup_s + each.finish_s for each in result.receivers if each.finish_s is not None]
    return Outcome(seconds, result.plan.partitions, setup_s)


def http(session: lab.Session, cloud: Case, file: Path, scratch: Path) -> Outcome:
    """Have each receiver fetch from one HTTP server, all at once."""
    address = next(host.address for host in read_inventory(session.hosts_file).host if host.name == "h0")
    serve = [sys.executable, "-m", "http.server", str(PORT), "--directory", str(file.parent)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = session.exec("h0", serve, **quiet)
    try:
        time.sleep(1.0)
        url = f"http://{address}:{PORT}/{file.name}"
        fetching = [
            session.exec(
                name, [sys.executable, "-c", FETCH, url, str(scratch / f"copy-{name}")], stdout=subprocess.PIPE
            )
            for name in cloud.network.names[1:]
        ]
        return Outcome([float(each.communicate(timeout=LIMIT_S)[0]) for each in fetching])
    finally:
        server.kill()
        server.wait()


def libtorrent(session: lab.Session, cloud: Case, file: Path, scratch: Path) -> Outcome:
    """Broadcast in a swarm of libtorrent's, whose members know each other from the start."""
    import libtorrent as lt

    files = lt.file_storage()
    lt.add_files(files, str(file))
    torrent = lt.create_torrent(files)
    lt.set_piece_hashes(torrent, str(file.parent))
    (scratch / "object.torrent").write_bytes(lt.bencode(torrent.generate()))
    addresses = {host.name: host.address for host in read_inventory(session.hosts_file).host}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    members: list[Any] = []
    for name, address in addresses.items():
        seed = name == "h0"
        copy = file if seed else scratch / name / "copy"
        copy.parent.mkdir(exist_ok=True)
        others = [other for other in addresses.values() if other != address]
        program = [sys.executable, swarm.__file__, str(copy), str(scratch / "object.torrent"), address]
        members.append(session.exec(name, [*program, "seed" if seed else "fetch", *others], **pipes))
    try:
        for member in members:
            if member.stdout.readline() != "ready\n":
                raise GavotteError("a member of the swarm does not start")
        for member in members:
            member.stdin.write("go\n")
            member.stdin.flush()
        seconds = [float(member.stdout.readline()) for member in members[1:]]
    finally:
        for member in members:
            member.kill()
            member.wait()
    content = file.read_bytes()
    if any((scratch / name / "copy").read_bytes() != content for name in cloud.network.names[1:]):
        raise GavotteError("libtorrent's copies differ")
    return Outcome(seconds)


def openmpi(session: lab.Session, cloud: Case, file: Path, scratch: Path, *, pipeline: bool) -> Outcome:
    """Broadcast by `MPI_Bcast`, by default or pipelined in pieces of 16 kB; connections are made before."""
    program = scratch / "bcast.py"
    program.write_text(MPI)
    tuned = {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_bcast_algorithm": "3",
        "OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize": "16384",
    }
    done = launch(
        session,
        "openmpi",
        [program, file, str(file.stat().st_size)],
        ranks=cloud.network.names,
        scratch=scratch,
        environment=tuned if pipeline else {},
        timeout_s=LIMIT_S,
        calm=True,
    )
    if done.returncode:
        raise GavotteError(f"Open MPI failed: {done.stderr.strip()[-200:]}")
    report = json.loads(done.stdout.strip().splitlines()[-1])
    if not report["same"]:
        raise GavotteError("Open MPI's ranks have different bytes")
    return Outcome([float(each) for each in report["seconds"]])


def ways(wanted: list[str], dying: str | None, times: Path, fault: str = "") -> dict[str, Way]:
    """Return the function of each way whose program is installed."""
    values: dict[str, Way] = {}
    for name in wanted:
        if name == BLIND:
            values[name] = partial(ours, mechanism="auto", times=times, blind=True)
        elif name in OURS:
            values[name] = partial(ours, mechanism=name, dying=dying, fault=fault, times=times)
        elif name == "http":
            values[name] = http
        elif name == "libtorrent" and importlib.util.find_spec("libtorrent") is not None:
            values[name] = libtorrent
        elif name.startswith("openmpi") and available("openmpi"):
            values[name] = partial(openmpi, pipeline=name != "openmpi")
        else:
            print(f"{name}: not installed")
    return values
