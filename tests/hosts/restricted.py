"""Agents behind TLS on hosts that restrict their users, and programs of this machine under the same restrictions."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
from tests.builders import topology
from tests.hosts.restrictions import Restriction
from tests.shell import GAVOTTE, until

from gavotte import lab
from gavotte.agents.binary import agent_binary
from gavotte.agents.runtime import RUNTIME_DIR_VARIABLE
from gavotte.formats.inventory import read_inventory
from gavotte.hosts import Bearer, keys

HOSTS = ("a", "b")
LINKS = topology([{"name": name, "rate": "1gbit", "egress": "100mbit"} for name in (*HOSTS, "boss")])
MEGABYTE = 1 << 20


def confined(restriction: Restriction, place: Path, words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command that runs `words` under a restriction, and its environment variables."""
    mounts = f" && {restriction.mounts}" if restriction.mounts else ""
    script = f'mount -t tmpfs -o mode=755 none /run{mounts} && exec "$@"'
    variables = {"CACHE": str(place / "cache"), "PLACE": str(place)}
    return ["unshare", "--mount", "sh", "-c", script, "sh", *restriction.wrapper, *words], variables


def inside(process: int, program: str) -> Iterator[int]:
    """Yield the descendants of a process, and the process itself, that have become a Python program."""
    words = Path(f"/proc/{process}/cmdline").read_text().split("\0")
    if program in words[:2]:
        yield process
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        yield from inside(int(child), program)


class RestrictedHosts:
    """Hosts a and b under a restriction, and `boss`, where the controller runs without one.

    Attributes:
        place: folder that all hosts read: the agent, its keys and `content`, the file that is broadcast.
        inventory: the hosts.
    """

    def __init__(self, cloud: lab.Session, place: Path, restriction: Restriction) -> None:
        self.cloud, self.place, self.restriction = cloud, place, restriction
        self.inventory = place / "h.hosts.toml"
        addresses = {host.name: host.address for host in read_inventory(cloud.hosts_file).host}
        keys(place / "keys", [Bearer(name, (addresses[name],)) for name in HOSTS])
        shutil.copy(agent_binary(), place)
        (place / "content").write_bytes(bytes(MEGABYTE))
        for path in (place / "keys", *(place / "keys" / "hosts").rglob("*"), *place.glob("*")):
            path.chmod(0o755)
        listed = [{"name": n, "address": addresses[n], "agent": f"tls://{addresses[n]}:7410"} for n in HOSTS]
        self.inventory.write_text(tomli_w.dumps({"format": "gavotte/hosts/1", "keys": "keys", "host": listed}))
        self.agents = [self.start(name, addresses[name]) for name in HOSTS]
        for name in HOSTS:
            until(partial(self.serves, name))

    def serves(self, name: str) -> bool:
        """Return whether a host's agent serves."""
        return "serves over TLS" in (self.place / f"{name}.log").read_text()

    def start(self, name: str, address: str) -> subprocess.Popen[bytes]:
        """Start a host's agent."""
        own = self.place / "keys" / "hosts" / name
        line = [str(self.place / "gavotte-agent"), "serve", "--bind", address, "--tls", f"{address}:7410"]
        line += ["--ca", str(own / "ca.pem"), "--cert", str(own / "host.pem"), "--key", str(own / "host.key")]
        words, variables = confined(self.restriction, self.place, line)
        with (self.place / f"{name}.log").open("wb") as log:
            environment = {**self.cloud.environment(), **variables}
            return self.cloud.exec(name, words, stdout=log, stderr=log, env=environment)

    def gavotte(self, *words: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run the command line on the controller's host."""
        line = [str(GAVOTTE), *map(str, words)]
        return self.cloud.run("boss", line, capture_output=True, text=True, timeout=timeout, cwd=self.place)

    def queued(self, *words: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Submit a transfer to a controller of transfers on the controller's host, and wait until it is over.

        Raises:
            AssertionError: if the queue refuses it, or the controller does not stop when it is asked to.
        """
        socket, network = self.place / "t.sock", self.place / "n.network.json"
        line = ["transfers", "serve", "--hosts", self.inventory, "--network", network, "--socket", socket]
        line += ["--store", self.place / "queue.sqlite3"]
        at = ("--socket", socket)
        log = self.place / "transfers.log"
        with log.open("wb") as file:
            controller = self.cloud.exec("boss", [str(GAVOTTE), *map(str, line)], stdout=file, stderr=file)
        try:
            until(lambda: "listening at" in log.read_text() or controller.poll() is not None)
            submitted = self.gavotte("transfers", "submit", *words, *at)
            assert submitted.returncode == 0, f"{submitted.stderr}{log.read_text()}"
            return self.gavotte("transfers", "wait", submitted.stdout.strip(), *at, timeout=timeout)
        finally:
            # The process that was started here only waits for the controller, which runs in the lab.
            for process in inside(controller.pid, str(GAVOTTE)):
                os.kill(process, signal.SIGTERM)
            assert controller.wait(timeout=30) == 0, log.read_text()

    def runs_here(self) -> bool:
        """Return whether the restricted user may read the interpreter that runs these tests."""
        words, variables = confined(self.restriction, self.place, ["sh", "-c", f"{sys.executable} -c pass"])
        done = subprocess.run(words, env=os.environ | variables, capture_output=True, check=False)
        return done.returncode == 0

    def here(self, *words: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run the command line on this machine, under the same restriction and with no runtime folder named."""
        line, variables = confined(self.restriction, self.place, [str(GAVOTTE), *map(str, words)])
        kept = {key: value for key, value in os.environ.items() if key != RUNTIME_DIR_VARIABLE}
        options: dict[str, Any] = {"env": kept | variables, "cwd": self.place, "timeout": timeout}
        return subprocess.run(line, capture_output=True, text=True, check=False, **options)


@contextmanager
def restricted_hosts(restriction: Restriction, place: Path) -> Iterator[RestrictedHosts]:
    """Run hosts under a restriction; `place` must be readable by all users."""
    hosts = None
    try:
        with lab.session(LINKS, source="tests", agents=False) as cloud:
            yield (hosts := RestrictedHosts(cloud, place, restriction))
    finally:
        for agent in hosts.agents if hosts else ():
            agent.wait(timeout=30)
