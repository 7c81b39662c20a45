"""An all-reduce and a shuffle of Ray on the nodes of a placement group: Ray's own choice of nodes, and a rack of measured labels."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benches.ecosystem.comparing import Row, in_turns, slug
from benches.ecosystem.stage import WORKERS, Asked, Stage

PYTHON = Path(__file__).parents[2] / "target" / "ecosystem" / "bin" / "python"
JOBS = ("all-reduce", "random shuffle")
SHARING = None
PORT = 6379
STARTED = "Ray runtime started."
"""A node says it when it is ready. Nodes that start together on two cores end each other's start by their deadlines."""


def version() -> str:
    """Return the version of the real component; empty if it is not installed."""
    folder = next((PYTHON.parents[1] / "lib").glob("python3*/site-packages/ray-*.dist-info"), None)
    return "" if folder is None else folder.name.split("-")[1].removesuffix(".dist")


def labels(stage: Stage) -> dict[str, str]:
    """Return the labels of each host, as `gavotte export` writes them for `ray start`."""
    text = stage.gavotte("export", "cloud.network.json", "--format", "ray")
    return dict(re.findall(r"ssh -n (\S+) ray start .*--labels=(\S+)", text))


@contextmanager
def cluster(stage: Stage) -> Iterator[Asked]:
    """Ray on all hosts, with labels; gives what runs `default: JOB` or `gavotte: JOB` there."""
    log, named = stage.folder / "ray.log", labels(stage)
    rooms = stage.folder / "ray"
    rooms.mkdir()
    token = stage.folder / "ray.token"
    token.write_text(secrets.token_hex(32))
    env = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_raylet_start_wait_time_s": "180",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
    }
    common = ["--num-cpus", 1, "--object-store-memory", 500_000_000, "--disable-usage-stats", "--block"]
    head = f"{stage.addresses[stage.hosts[0]]}:{PORT}"
    with ExitStack() as ends:
        for number, host in enumerate(stage.hosts, 1):
            first = host == stage.hosts[0]
            where = ["--head", "--port", PORT, "--include-dashboard=false"] if first else ["--address", head]
            own = ["--node-ip-address", stage.addresses[host], "--labels", named[host], "--temp-dir", rooms / "r"]
            words = [PYTHON.with_name("ray"), "start", *where, *own, *common]
            # Each node has sockets and files at the same paths, which are private to it in a file system of its own.
            mounted = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', rooms, *words]
            ends.enter_context(stage.running(host, words if first else mounted, log, env))
            stage.until(partial(_count_is, log, number), log)
        program = [
            PYTHON,
            Path(__file__).with_name("ray_program.py"),
            WORKERS,
            len(stage.hosts),
            stage.folder / "nodes",
        ]
        yield ends.enter_context(stage.asking(stage.hosts[0], program, log, env))


def _count_is(log: Path, nodes: int) -> bool:
    return log.read_text(errors="replace").count(STARTED) == nodes


def compared(stage: Stage, runs: int, seed: int) -> Iterator[Row]:
    """Run each job in placement groups of Ray's choice, and in those of one rack by the measured labels."""
    with cluster(stage) as ask:
        for job in JOBS:
            ask(f"gavotte: {job}")
            ask(f"default: {job}")
            with stage.watched(slug(job)):
                first_s = ask(f"default: {job}")
            before = nodes(stage)
            ask(f"gavotte: {job}")
            chosen = stage.choose(slug(job), before, [first_s], onto=nodes(stage))
            times = in_turns({way: partial(ask, f"{way}: {job}") for way in ("default", "gavotte")}, runs, seed)
            accepted = "--labels, placement_group(topology_strategy)"
            yield Row(f"Ray {version()}", accepted, job, tuple(before), chosen, times)


def nodes(stage: Stage) -> list[str]:
    """Return the hosts of the newest placement group, which the program has written down."""
    names = {address: host for host, address in stage.addresses.items()}
    return [names[address] for address in (stage.folder / "nodes").read_text().split()]
