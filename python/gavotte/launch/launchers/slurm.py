"""Slurm's srun inside an allocation. `--distribution arbitrary` starts ranks in the order of `SLURM_HOSTFILE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, cycle

from gavotte.errors import GavotteError
from gavotte.launch.launchers.command_line import CommandLine, Syntax, named
from gavotte.launch.launchers.launcher import Launcher, Start, Wanted

_HOSTS = "remove it: the allocation has the hosts"
_MAPPING = "remove it, since `gavotte launch` distributes the ranks"

SYNTAX = Syntax(
    values=dict.fromkeys(
        named(
            "n ntasks ntasks-per-node c cpus-per-task N nodes A account b begin D chdir d dependency e error i "
            "input o output J job-name K kill-on-bad-exit L licenses m distribution p partition q qos r relative "
            "t time w nodelist x exclude W wait acctg-freq bcast cpu-bind cpu-freq comment compress C constraint "
            "epilog export gpus gpus-per-node gpus-per-task gpu-bind gres gres-flags hint jobid immediate I mem "
            "mem-bind mem-per-cpu mem-per-gpu mincpus mpi multi-prog network nice prolog propagate resv-ports "
            "signal slurmd-debug task-epilog task-prolog threads-per-core tmp tres-per-task unbuffered-delay "
            "ntasks-per-core ntasks-per-socket ntasks-per-gpu cores-per-socket sockets-per-node extra-node-info B "
            "het-group open-mode cluster-constraint"
        ),
        1,
    )
    # Options whose value follows `=` or not at all.
    | dict.fromkeys(
        ["kill-on-bad-exit", "K", "immediate", "I", "propagate", "resv-ports", "compress", "multi-prog"], 0
    ),
    ranks=frozenset(["n", "ntasks"]),
    per_host=frozenset(["ntasks-per-node"]),
    refused=dict.fromkeys(["m", "distribution", "r", "relative"], _MAPPING)
    | dict.fromkeys(["w", "nodelist", "x", "exclude"], _HOSTS)
    | {"multi-prog": "start one program, or use GAVOTTE_LAUNCH=off"},
    attached="nNcDJptAqemiorwxCW",
)


class Srun(Launcher):
    """Slurm's srun."""

    title = "srun"
    family = ""
    syntax = SYNTAX
    crowding = ("O", "overcommit")

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def read(self, words: Sequence[str]) -> CommandLine:
        """Parse a command line inside an allocation.

        Raises:
            GavotteError: also outside an allocation.
        """
        if not self._environ.get("SLURM_JOB_ID"):
            raise GavotteError(
                "srun would wait for hosts of its own choice", hint="run `gavotte launch` inside salloc or sbatch"
            )
        return super().read(words)

    def ranks(self, line: CommandLine, slots: Mapping[str, int]) -> int:
        """Return the number of ranks: the line's, else the allocation's, else one on each host."""
        given = self._environ.get("SLURM_NTASKS", "")
        return line.ranks or (int(given) if given.isdecimal() and int(given) else (line.per_host or 1) * len(slots))

    def slots(self, line: CommandLine, cpus: Mapping[str, float]) -> dict[str, int]:
        """Return how many ranks each host takes: its cores, divided by those of a rank."""
        given = [text for (text,) in line.values_of("c", "cpus-per-task")]
        text = given[-1] if given else self._environ.get("SLURM_CPUS_PER_TASK", "")
        each = int(text) if text.isdecimal() and int(text) else 1
        return super().slots(line, {host: number // each for host, number in cpus.items()})

    def default(self, ranks: int, slots: Mapping[str, int]) -> list[str]:
        """Return Slurm's block distribution: each host gets one rank, then the first ones fill up."""
        hosts = list(slots)
        counts = dict.fromkeys(hosts[:ranks], 1)
        left = ranks - len(counts)
        first = ((host, slots[host] - 1) for host in hosts)
        # Where all slots are taken, hosts fill up again.
        for host, room in chain(first, cycle(slots.items())):
            if not left:
                break
            more = min(left, room)
            counts[host] += more
            left -= more
        return [host for host, count in counts.items() for _ in range(count)]

    def start(self, line: CommandLine, wanted: Wanted) -> Start:
        """Return how to start a job: as it is, or in the order of a file."""
        exported = self._exported(line, wanted.variables)
        export = [f"--export={exported}"] if exported else []
        if not wanted.placed:
            return Start([line.launcher, *line.words_without("export"), *export, *line.program])
        own = line.words_without(*SYNTAX.ranks, *SYNTAX.per_host, "export", "N", "nodes")
        words = [line.launcher, "--distribution=arbitrary", f"--ntasks={len(wanted.hosts)}", *own, *export]
        text = "".join(f"{host}\n" for host in wanted.hosts)
        return Start([*words, *line.program], text, {"SLURM_HOSTFILE": wanted.file})

    def preloaded(self, line: CommandLine) -> str:
        """Return the value of LD_PRELOAD that `--export` sets."""
        given = [value for (text,) in line.values_of("export") for value in text.split(",")]
        values = [value.partition("=")[2] for value in given if value.startswith("LD_PRELOAD=")]
        return values[-1] if values else ""

    def _exported(self, line: CommandLine, variables: Mapping[str, str]) -> str:
        """Return the value of `--export` with variables of ours; empty = the option is not needed."""
        texts = [text for (text,) in line.values_of("export")]
        own = texts[-1] if texts else ""
        if not variables:
            return own
        kept = [each for each in (own or "ALL").split(",") if each.partition("=")[0] not in variables]
        return ",".join([*kept, *(f"{name}={value}" for name, value in variables.items())])
