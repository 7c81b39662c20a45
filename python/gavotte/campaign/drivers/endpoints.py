"""What every driver offers: hosts with agents, a shell on each, limits of processors, and how far apart they are."""

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
"""Host to its address inside a tunnel."""

ASK_LIMIT_S = 20.0
"""How long a host may take to tell of itself."""


class Lab(Protocol):
    """A lab that stands, as the room of that name gives it."""

    folder: Path
    hosts_file: Path

    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """The line that runs a program on a host."""
        ...

    def exec(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Starts a program on a host."""
        ...

    def run(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Runs a program on a host."""
        ...

    def status(self) -> Any:
        """How it is; `keeper` is its process."""
        ...


MakesLab = Callable[[Topology], AbstractContextManager[Lab]]
"""Makes a lab of a topology for the length of a `with` block."""


MakesKeys = Callable[[Path, str, str], object]
"""Makes in a folder an authority, a controller's keys and those of one host: the folder, its name, its address."""


class Endpoints(ABC):
    """The hosts of one campaign, ready to be measured between.

    Attributes:
        inventory: with their agents.
        kind: of the driver.
    """

    inventory: Inventory
    kind: str

    @property
    def reach(self) -> Reach | None:
        """Roads to the agents that stay open; None = opened for each sample."""
        return None

    @abstractmethod
    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """The line that runs a program on a host."""

    def environment(self) -> dict[str, str] | None:
        """The variables that such a line needs; None = this process's."""
        return None

    def start(self, host: str, argv: Sequence[str]) -> subprocess.Popen[str]:
        """Starts a program on a host; its output comes by pipes."""
        return subprocess.Popen(
            self.command(host, argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
        )

    def ask(self, host: str, script: str) -> str:
        """What a shell on a host prints; empty where it does not answer in time."""
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
        """Where other hosts reach it."""
        return next(each.address for each in self.inventory.host if each.name == host)

    def limit(self, flavour: Flavour | None, hosts: Sequence[str]) -> None:  # noqa: ARG002
        """Gives hosts what a flavour says of the processors; None = all.

        Raises:
            UnsupportedError: when this driver cannot.
        """
        if flavour is not None:
            raise UnsupportedError(
                f"a `{self.kind}` driver cannot limit processors of hosts that it did not make",
                hint="leave `flavours` out, or use servers of other flavours",
            )

    def distance(self, source: str, target: str) -> int | None:
        """Edges between two hosts in OSMeF's tree (Fig. 1): 0, 2 or 4; None where the driver does not know."""
        return 0 if source == target else None

    @contextmanager
    def tunnel(self, pairs: Sequence[tuple[str, str]]) -> Iterator[Tunnelled]:  # noqa: ARG002
        """Joins the ends of pairs by VXLAN for the length of the block.

        Raises:
            UnsupportedError: when this driver cannot.
        """
        raise UnsupportedError(f"a `{self.kind}` driver makes no tunnels", hint="use `pair`")
        yield {}

    @abstractmethod
    def mend(self) -> None:
        """Brings agents back that have gone."""
