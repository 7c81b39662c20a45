"""Open MPI's mpirun, versions 4 and 5.

Ranks in an order of ours go to hosts by the `seq` mapper and are bound to no core: bound to one, the threads of a rank
would share it. With `--bind-to core` they get a rank file, in which each has a core of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gavotte.errors import GavotteError
from gavotte.launch.launchers.command_line import CommandLine, Syntax, named
from gavotte.launch.launchers.launcher import Launcher, Start, Wanted

_HOSTS = "remove it, and name the hosts by --hosts before `--`"
_MAPPING = "remove it, since `gavotte launch` maps the ranks"
_PARAMETERS = ("mca", "gmca", "prtemca", "omca", "pmixmca")
_MAPPED = ("rmaps", "rmaps_base_mapping_policy", "rmaps_base_ranking_policy", "orte_rankfile")
_LISTED = ("orte_default_hostfile", "prte_default_hostfile")
_PRELOAD = "LD_PRELOAD"

SYNTAX = Syntax(
    values=dict.fromkeys(
        named(
            "n np c N npernode npersocket am app bind-to cf cartofile cpu-list cpu-set cpus-per-proc cpus-per- "
            "rank debugger hnp launch-agent max-restarts max-vm-size ompi-server output-filename path personality "
            "prefix preload-files report-events report-pid report-state-on-timeout report-uri stdin timeout tune "
            "wd wdir x xml-file xterm output runtime-options display pset dvm-uri map-by rank-by ppr rankfile rf "
            "hostfile machinefile default-hostfile H host"
        ),
        1,
    )
    | dict.fromkeys(_PARAMETERS, 2),
    ranks=frozenset(["n", "np", "c"]),
    per_host=frozenset(["N", "npernode", "pernode"]),
    refused=dict.fromkeys(named("map-by rank-by ppr bynode byslot bycore npersocket nolocal rankfile rf"), _MAPPING)
    | dict.fromkeys(named("hostfile machinefile default-hostfile H host"), _HOSTS)
    | {"app": "write the program on the command line"},
)


class OpenMpi(Launcher):
    """Open MPI's mpirun, mpiexec or orterun.

    Args:
        version: its major version.
    """

    family = "openmpi"
    syntax = SYNTAX
    crowding = ("oversubscribe",)

    def __init__(self, version: int) -> None:
        self.title = f"Open MPI {version}"
        self._version = version
        # Open MPI 5 has other components before `tuned`, where several ranks share a host.
        self.tunable = "openmpi" if version == 4 else None

    def read(self, words: Sequence[str]) -> CommandLine:
        """Parse a command line, and also refuse parameters that map ranks."""
        line = super().read(words)
        for name, *_ in line.values_of(*_PARAMETERS):
            if name in _MAPPED + _LISTED:
                raise GavotteError(
                    f"`{name}` of {line.launcher} contradicts an order of ranks",
                    hint=_HOSTS if name in _LISTED else _MAPPING,
                )
        return line

    def start(self, line: CommandLine, wanted: Wanted) -> Start:
        """Return how to start a job: by a host file in the launcher's own order, else by one line for each rank."""
        bound = ("core",) in line.values_of("bind-to")
        options = line.words_without(*SYNTAX.ranks, *SYNTAX.per_host, *(["x"] if wanted.variables else []))
        if not wanted.placed:
            order = ["--hostfile", wanted.file]
            text = "".join(f"{host} slots={count}\n" for host, count in wanted.slots.items())
        elif bound and not wanted.crowded:
            order = ["--rankfile", wanted.file] if self._version < 5 else ["--map-by", f"rankfile:file={wanted.file}"]
            # A rank file also binds.
            options = line.words_without(*SYNTAX.ranks, *SYNTAX.per_host, "bind-to", "x" if wanted.variables else "")
            text = _rank_file(wanted.hosts)
        else:
            more = wanted.crowded and not line.has("oversubscribe")
            if self._version < 5:
                order = ["--oversubscribe"] * more + ["--mca", "rmaps", "seq", "--hostfile", wanted.file]
            else:
                order = ["--map-by", f"seq:file={wanted.file}" + ":OVERSUBSCRIBE" * more]
            order += [] if line.has("bind-to") else ["--bind-to", "none"]
            text = "".join(f"{host}\n" for host in wanted.hosts)
        words = [line.launcher, *order, "-np", str(len(wanted.hosts)), *options]
        if wanted.variables:
            words += self._exports(line, wanted.variables)
        return Start([*words, *line.program], text)

    def preloaded(self, line: CommandLine) -> str:
        """Return the value of LD_PRELOAD that `-x` sets."""
        given = [value for (value,) in line.values_of("x") if value.partition("=")[0] == _PRELOAD]
        return given[-1].partition("=")[2] if given else ""

    def _exports(self, line: CommandLine, variables: Mapping[str, str]) -> list[str]:
        """Return `-x` for the user's variables and ours. Open MPI refuses a variable that it gets twice."""
        own = [value for (value,) in line.values_of("x") if value.partition("=")[0] not in variables]
        given = [*own, *(f"{name}={value}" for name, value in variables.items())]
        return [word for each in given for word in ("-x", each)]


def _rank_file(hosts: Sequence[str]) -> str:
    """Return a rank file in which the ranks of a host have its cores in turn."""
    slots: Counter[str] = Counter()
    lines = []
    for rank, host in enumerate(hosts):
        lines.append(f"rank {rank}={host} slot={slots[host]}\n")
        slots[host] += 1
    return "".join(lines)
