"""PyTorch's torchrun, which is started once on each host: an order of its hosts is their node ranks.

Only the static rendezvous keeps an order. Versions 1 and 2 know options with underscores, version 2 also with dashes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gavotte.errors import GavotteError
from gavotte.launch.launchers.command_line import CommandLine, Syntax, named
from gavotte.launch.launchers.launcher import Launcher, Start, Wanted

_GIVEN = "remove it, since `gavotte launch` gives each host its own"
NODE = "NODE_RANK"
"""Node rank in a command line that is only shown."""

SYNTAX = Syntax(
    values=dict.fromkeys(
        named(
            "nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts monitor_interval "
            "start_method role log_dir redirects r tee t local_ranks_filter node_rank master_addr master_port "
            "local_addr logs_specs event_log_handler numa_binding signals_to_handle duplicate_stdout_filters "
            "duplicate_stderr_filters"
        ),
        1,
    ),
    ranks=frozenset(),
    per_host=frozenset(),
    refused=dict.fromkeys(named("node_rank master_addr rdzv_endpoint local_addr"), _GIVEN)
    | {"standalone": "remove it, since the job has several hosts"},
    attached="rt",
)


class Torchrun(Launcher):
    """Torchrun with the static rendezvous."""

    title = "torchrun"
    family = ""
    syntax = SYNTAX
    on_each = True

    def read(self, words: Sequence[str]) -> CommandLine:
        """Parse a command line. Without `--nnodes`, the job takes all hosts.

        Raises:
            GavotteError: also when torchrun would ignore an order of hosts.
        """
        line = super().read(_with_underscores(words))
        backends = [text for (text,) in line.values_of("rdzv_backend")]
        if backends and backends[-1] != "static":
            raise GavotteError(
                f"torchrun sorts hosts by name with --rdzv-backend {backends[-1]}",
                hint="leave it out, since `gavotte launch` uses the static rendezvous",
            )
        nodes = None
        for (text,) in line.values_of("nnodes"):
            least, mark, most = text.partition(":")
            if mark and least != most:
                raise GavotteError(
                    f"torchrun is elastic with --nnodes={text} and ignores an order of hosts",
                    hint="use a fixed number of hosts, or leave it out for all hosts",
                )
            if not re.fullmatch("[0-9]{1,6}", least) or not int(least):
                raise GavotteError(f"`--nnodes {text}` of torchrun is no number of hosts", hint="use 1 or more")
            nodes = int(least)
        return replace(line, ranks=nodes)

    def slots(self, line: CommandLine, cpus: Mapping[str, float]) -> dict[str, int]:  # noqa: ARG002
        """Return how many torchruns each host takes: one."""
        return dict.fromkeys(cpus, 1)

    def room(self, line: CommandLine, ranks: int, slots: Mapping[str, int]) -> dict[str, int]:  # noqa: ARG002
        """Return one for each host.

        Raises:
            GavotteError: when the job wants more hosts than there are.
        """
        if ranks > len(slots):
            raise GavotteError(
                f"torchrun wants {ranks} hosts, and {len(slots)} can be used", hint="lower --nnodes, or name more hosts"
            )
        return dict(slots)

    def identity(self, line: CommandLine) -> tuple[str, ...]:
        """Return the number of ranks on a host, and whether the program is a module."""
        texts = [text for (text,) in line.values_of("nproc_per_node")]
        return (texts[-1] if texts else "1", *(["module"] if line.has("m", "module") else []))

    def per_host(self, line: CommandLine) -> int | None:
        """Return the number of ranks on each host; None if the hosts' own hardware decides it."""
        text = self.identity(line)[0]
        return int(text) if re.fullmatch("[0-9]{1,6}", text) and int(text) else None

    def start(self, line: CommandLine, wanted: Wanted) -> Start:
        """Return the command line of each host."""
        first = wanted.addresses.get(wanted.hosts[0], wanted.hosts[0])
        own = line.words_without("nnodes", "rdzv_backend")

        def words(rank: str) -> list[str]:
            given = ["--nnodes", str(len(wanted.hosts)), "--node_rank", rank, "--rdzv_backend", "static"]
            return [line.launcher, *given, "--master_addr", first, *own, *line.program]

        return Start(words(NODE), each=[words(str(rank)) for rank in range(len(wanted.hosts))])

    def preloaded(self, line: CommandLine) -> str:  # noqa: ARG002
        """Return the empty string: torchrun sets no LD_PRELOAD."""
        return ""


def _with_underscores(words: Sequence[str]) -> list[str]:
    """Return the words with underscores for dashes in the names of torchrun's options."""
    result, rest = [words[0]], list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        if word.startswith("--"):
            name, mark, value = word[2:].partition("=")
            word = f"--{name.replace('-', '_')}{mark}{value}"
            attached = bool(mark)
        else:
            attached = len(word) > 2 and word[1] in SYNTAX.attached
        result.append(word)
        if not attached and rest:
            result += [rest.pop(0) for _ in range(SYNTAX.values.get(word.lstrip("-"), 0))]
    return [*result, *rest]
