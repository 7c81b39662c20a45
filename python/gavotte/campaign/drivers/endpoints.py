"""Interface of all drivers: hosts with agents, a shell on each host, processor limits, and distances between hosts."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from gavotte.agents import Reach
from gavotte.errors import UnsupportedError
from gavotte.formats.campaign import Flavour
from gavotte.formats.inventory import Inventory
from gavotte.formats.topology import Topology

Tunnelled = Mapping[str, str]
"""Addresses inside a tunnel, by host."""

ASK_LIMIT_S = 20.0
"""Longest wait for a host's answer to `Endpoints.ask`, in seconds."""


class Lab(Protocol):
    """A running lab, as `gavotte.lab` provides it."""

    folder: Path
    hosts_file: Path

    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program on a host."""
        ...

    def exec(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program on a host."""
        ...

    def run(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run a program on a host and wait until it ends."""
        ...

    def status(self) -> Any:
        """Return the lab's state; its `keeper` is the ID of the process that keeps the lab."""
        ...


MakesLab = Callable[[Topology], AbstractContextManager[Lab]]
"""Function that runs a lab of a topology for the length of a `with` block."""


MakesKeys = Callable[[Path, str, str], object]
"""Function that creates keys of an authority, a controller and one host in a folder.

Its arguments are the folder, and the name and address of the host.
"""


class Endpoints(ABC):
    """The hosts of one campaign, ready for measurements between them.

    Attributes:
        inventory: the hosts and their agents.
        kind: kind of the driver, for messages.
    """

    inventory: Inventory
    kind: str

    @property
    def reach(self) -> Reach | None:
        """Permanent connections to the agents; None = each sample opens its own."""
        return None

    @abstractmethod
    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program on a host."""

    def environment(self) -> dict[str, str] | None:
        """Return the environment variables that the line of `command` needs; None = those of this process."""
        return None

    def start(self, host: str, argv: Sequence[str]) -> subprocess.Popen[str]:
        """Start a program on a host, with pipes for its input, output and errors."""
        return subprocess.Popen(
            self.command(host, argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
        )

    def ask(self, host: str, script: str) -> str:
        """Return the output of a shell script on a host; empty if the host does not answer in time."""
        try:
            done = subprocess.run(
                self.command(host, ["sh", "-c", script]),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=ASK_LIMIT_S,
                check=False,
                env=self.environment(),
            )
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout

    def address(self, host: str) -> str:
        """Return the address at which other hosts reach a host."""
        return next(each.address for each in self.inventory.host if each.name == host)

    def limit(self, flavour: Flavour | None, hosts: Sequence[str]) -> None:  # noqa: ARG002
        """Limit the processors of hosts to those of a flavour; None = no limit.

        Raises:
            UnsupportedError: when this driver cannot.
        """
        if flavour is not None:
            raise UnsupportedError(
                f"a `{self.kind}` driver cannot limit processors of hosts that it did not make",
                hint="leave `flavours` out, or use servers of other flavours",
            )

    def distance(self, source: str, target: str) -> int | None:
        """Return the number of edges between two hosts in OSMeF's tree (Fig. 1): 0, 2 or 4; None = not known."""
        return 0 if source == target else None

    @contextmanager
    def joined(self, pairs: Sequence[tuple[str, str]], kind: str) -> Iterator[Tunnelled]:  # noqa: ARG002
        """Connect the hosts of all pairs by a path of its own for the length of a `with` block.

        Args:
            pairs: the pairs of hosts.
            kind: what joins them: `tunnel` (VXLAN), `gre`, `veth` or `ovs`.

        Yields:
            the hosts' addresses on that path.

        Raises:
            UnsupportedError: when this driver cannot.
        """
        raise UnsupportedError(f"a `{self.kind}` driver makes no path for `{kind}`", hint="use `pair`")
        yield {}

    @abstractmethod
    def mend(self) -> None:
        """Restart the agents that have ended."""
