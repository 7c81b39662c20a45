"""A lab with one condition, and the command line in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benches.clouds.conditions import Condition

from gavotte import lab
from gavotte.formats.inventory import read_inventory

GAVOTTE = Path(sys.executable).with_name("gavotte")
LIMIT_S = 300.0
"""Longest that one command may take."""


class CommandError(Exception):
    """A command that did not end with status 0, with its last output."""


@dataclass
class Stage:
    """A lab that is up.

    Attributes:
        condition: what it emulates.
        session: the lab.
        folder: scratch folder of its commands.
    """

    condition: Condition
    session: lab.Session
    folder: Path

    def gavotte(self, *words: object, answers: Collection[int] = (0,)) -> Any:
        """Run a command with `--json` and return what it printed.

        Args:
            words: its arguments.
            answers: exit statuses that are answers. `guarantee status` ends with 3 where a guarantee is broken.

        Raises:
            CommandError: when it fails or takes too long.
        """
        line = [str(GAVOTTE), *map(str, words), "--json"]
        try:
            ended = subprocess.run(
                line,
                cwd=self.folder,
                env=self.session.environment(),
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CommandError(f"took more than {LIMIT_S:.0f} s") from None
        if ended.returncode not in answers:
            last = ended.stderr.strip().splitlines()[-2:]
            raise CommandError(f"exit {ended.returncode}: {' '.join(last)}")
        return json.loads(ended.stdout) if ended.stdout.strip() else None

    def on(self, host: str, *words: object, **options: Any) -> subprocess.Popen[str]:
        """Start a program on a host."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True} | options
        return self.session.exec(host, [str(word) for word in words], **options)

    def traffic(self, host: str, *words: object) -> subprocess.Popen[str]:
        """Start the tests' traffic program on a host."""
        script = Path(__file__).parents[2] / "tests" / "guarantee" / "traffic.py"
        return self.on(host, sys.executable, "-I", "-S", script, *words)

    @cached_property
    def addresses(self) -> dict[str, str]:
        """Address of each host."""
        return {host.name: host.address for host in read_inventory(self.session.hosts_file).host}

    def iperf3_bps(self, source: str, target: str, *, connections: int = 1, seconds: int = 4) -> float:
        """TCP goodput of a long CUBIC transfer after its first two seconds; 0 = none.

        Several connections are as many programs: before version 3.16, iperf3 sends all of them in one thread.
        """
        ports = [5999 + number for number in range(connections)]
        servers = [self.on(target, "iperf3", "-s", "-1", "-p", str(port)) for port in ports]
        try:
            with ThreadPoolExecutor(connections) as pool:
                return sum(pool.map(lambda port: self._iperf3_bps(source, target, port, seconds), ports))
        finally:
            for server in servers:
                server.kill()
                server.wait()

    def _iperf3_bps(self, source: str, target: str, port: int, seconds: int) -> float:
        """Goodput of one connection of iperf3 to a server that may still start; 0 = none."""
        words = ["iperf3", "-c", self.addresses[target], "-p", str(port), "-J", "-C", "cubic", "-O", "2"]
        for _ in range(20):
            known = self.on(source, *words, "-t", str(seconds)).communicate(timeout=LIMIT_S)[0]
            report = json.loads(known or "{}")
            if "error" not in report:
                return float(report["end"]["sum_received"]["bits_per_second"])
        return 0.0

    def block(self, host: str, protocol: str) -> None:
        """Drop what arrives at a host by one transport protocol.

        Raises:
            CommandError: when there is no nftables.
        """
        script = f"""
            add table inet blocked
            add chain inet blocked input {{ type filter hook input priority 0; }}
            add rule inet blocked input meta l4proto {protocol} drop
        """
        ended = self.session.run(host, ["nft", "-f", "-"], input=script, capture_output=True, text=True)
        if ended.returncode:
            raise CommandError(f"cannot block {protocol}: {ended.stderr.strip()}")


@contextmanager
def staged(condition: Condition, folder: Path) -> Iterator[Stage]:
    """Build a condition's lab; its scratch folder is empty at the beginning and removed at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with lab.session(condition.topology, source="bench-clouds") as session:
            stage = Stage(condition, session, folder)
            if condition.blocked:
                stage.block("a", condition.blocked)
            yield stage
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pairs(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield directed pairs of positions."""
    for i in range(len(names)):
        for j in range(len(names)):
            if i != j:
                yield i, j
