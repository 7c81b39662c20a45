"""What `gavotte launch` needs to know about a launcher, and what it asks of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gavotte.errors import GavotteError
from gavotte.launch.launchers.command_line import CommandLine, Syntax, parse
from gavotte.terms.algorithms import Library


@dataclass(frozen=True)
class Wanted:
    """A start that is wanted from a launcher.

    Attributes:
        hosts: host of each rank.
        slots: number of ranks that each host takes, in the order in which the launcher fills the hosts.
        placed: whether `hosts` differs from the launcher's own order.
        file: path of the file that lists hosts or ranks.
        variables: variables to set for each rank.
        addresses: address or DNS name of each host, as other hosts reach it, for launchers that start on each host.
    """

    hosts: Sequence[str]
    slots: Mapping[str, int]
    placed: bool
    file: str
    variables: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)

    @property
    def crowded(self) -> bool:
        """Whether some host gets more ranks than it has slots."""
        return any(self.hosts.count(host) > slots for host, slots in self.slots.items())


@dataclass(frozen=True)
class Start:
    """How to start a job.

    Attributes:
        words: the command line.
        text: content of the file of hosts or ranks; empty = no file is needed.
        variables: variables of the launcher itself.
        each: command line of each host, in the order of the wanted hosts; empty = one command line starts all ranks.
    """

    words: list[str]
    text: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    each: Sequence[list[str]] = ()


class Launcher(ABC):
    """A program that starts the ranks of a job on hosts."""

    title: str
    """Name for messages."""
    family: str
    """MPI library whose programs it starts: `openmpi`, `mpich`; empty = any."""
    syntax: Syntax
    crowding: tuple[str, ...] | None = ()
    """Options with which hosts may get more ranks than slots; None = they always may."""
    tunable: Library | None = None
    """MPI library whose own algorithms for collectives can be set; None = none that is known."""
    on_each: bool = False
    """Whether it must be started on each host. Its order is then one of hosts, and the job's tasks are hosts."""

    def read(self, words: Sequence[str]) -> CommandLine:
        """Parse a command line of this launcher.

        Raises:
            GavotteError: when it contradicts an order of ranks, or cannot be read.
        """
        return parse(words, self.syntax)

    def ranks(self, line: CommandLine, slots: Mapping[str, int]) -> int:
        """Return the number of ranks that the launcher would start on hosts with these slots."""
        return line.ranks or sum(slots.values())

    def slots(self, line: CommandLine, cpus: Mapping[str, float]) -> dict[str, int]:
        """Return how many ranks each host takes before the launcher goes on to the next one."""
        return {host: line.per_host or max(1, int(number)) for host, number in cpus.items()}

    def default(self, ranks: int, slots: Mapping[str, int]) -> list[str]:
        """Return the host of each rank as the launcher orders them: it fills one host after the other.

        Where all slots are taken, it begins again.
        """
        order: list[str] = []
        while len(order) < ranks:
            for host, count in slots.items():
                order += [host] * min(count, ranks - len(order))
        return order

    def room(self, line: CommandLine, ranks: int, slots: Mapping[str, int]) -> dict[str, int]:
        """Return the largest number of ranks that each host may get.

        Raises:
            GavotteError: when the ranks do not fit.
        """
        whole = sum(slots.values())
        if ranks <= whole:
            return dict(slots)
        if self.crowding is not None and not line.has(*self.crowding):
            raise GavotteError(
                f"{ranks} ranks do not fit on {len(slots)} hosts with {whole} slots",
                hint=f"start fewer, name more hosts, or allow {self.title} more ranks than cores",
            )
        rounds = -(-ranks // whole)
        return {host: count * rounds for host, count in slots.items()}

    @abstractmethod
    def start(self, line: CommandLine, wanted: Wanted) -> Start:
        """Return how to start a job as wanted."""

    def identity(self, line: CommandLine) -> tuple[str, ...]:  # noqa: ARG002
        """Return the options that make another job of the same program, with other messages."""
        return ()

    def per_host(self, line: CommandLine) -> int | None:
        """Return the number of ranks on each host; None = the line does not say."""
        return line.per_host

    @abstractmethod
    def preloaded(self, line: CommandLine) -> str:
        """Return the value of LD_PRELOAD that the command line sets for the ranks; empty = none."""


def runs(hosts: Sequence[str]) -> list[tuple[str, int]]:
    """Return each host with the number of ranks that follow each other on it."""
    result: list[tuple[str, int]] = []
    for host in hosts:
        if result and result[-1][0] == host:
            result[-1] = (host, result[-1][1] + 1)
        else:
            result.append((host, 1))
    return result
