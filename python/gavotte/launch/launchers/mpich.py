"""MPICH's mpiexec (hydra), which Intel MPI has too. Its host file may name a host again, so it carries any order."""

from __future__ import annotations

from collections.abc import Mapping

from gavotte.launch.launchers.command_line import CommandLine, Syntax, named
from gavotte.launch.launchers.launcher import Launcher, Start, Wanted, runs

_HOSTS = "remove it, and name the hosts by --hosts before `--`"
_MAPPING = "remove it, since `gavotte launch` maps the ranks"

SYNTAX = Syntax(
    values=dict.fromkeys(
        named(
            "n np ppn perhost genvlist wdir configfile envlist launcher launcher-exec bootstrap bootstrap-exec "
            "rmk topolib bind-to map-by membind demux iface prepend-pattern outfile-pattern errfile-pattern "
            "nameserver localhost usize order-nodes gpus-per-proc path f hostfile machinefile hosts host arch"
        ),
        1,
    )
    | {"genv": 2, "env": 2},
    ranks=frozenset(["n", "np"]),
    per_host=frozenset(["ppn", "perhost"]),
    refused=dict.fromkeys(["f", "hostfile", "machinefile", "hosts", "host"], _HOSTS)
    | dict.fromkeys(["order-nodes", "skip-launch-node", "map-by"], _MAPPING)
    | {"configfile": "write the program on the command line"},
)


class Mpich(Launcher):
    """Mpiexec of MPICH, or of Intel MPI.

    Args:
        intel: whether it is Intel MPI's, whose collectives have other settings.
    """

    title = "MPICH"
    family = "mpich"
    syntax = SYNTAX
    crowding = None

    def __init__(self, *, intel: bool = False) -> None:
        self.tunable = None if intel else "mpich"

    def ranks(self, line: CommandLine, slots: Mapping[str, int]) -> int:  # noqa: ARG002
        """Return the number of ranks: one, unless the line says more."""
        return line.ranks or 1

    def start(self, line: CommandLine, wanted: Wanted) -> Start:
        """Return how to start a job by a host file with the number of ranks of each host."""
        listed = runs(wanted.hosts) if wanted.placed else list(wanted.slots.items())
        words = [line.launcher, "-f", wanted.file, "-n", str(len(wanted.hosts))]
        words += [word for name, value in wanted.variables.items() for word in ("-genv", name, value)]
        words += self._options(line, wanted)
        return Start([*words, *line.program], "".join(f"{host}:{count}\n" for host, count in listed))

    def preloaded(self, line: CommandLine) -> str:
        """Return the value of LD_PRELOAD that `-genv` or `-env` sets."""
        given = [value for name, value in line.values_of("genv", "env") if name == "LD_PRELOAD"]
        return given[-1] if given else ""

    def _options(self, line: CommandLine, wanted: Wanted) -> list[str]:
        """Return the user's options, without variables that are set to another value."""
        return [
            word
            for option in line.options
            if option.name not in SYNTAX.ranks | SYNTAX.per_host
            and not (option.name in ("genv", "env") and option.values[0] in wanted.variables)
            for word in option.words
        ]
