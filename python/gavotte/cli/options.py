"""Options and arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _seed(seed: int) -> int:
    if seed >= 2**63:
        raise typer.BadParameter("the largest seed is 2^63 - 1")
    return seed


def read_rate(option: str, text: str) -> float:
    """Reads the rate that an option was given, in bit/s.

    Raises:
        BadParameter: naming the option.
    """
    from pydantic_core import PydanticCustomError

    from gavotte.formats.rates import parse_rate

    try:
        return parse_rate(text)
    except PydanticCustomError as error:
        remedy = (error.context or {})["remedy"]
        raise typer.BadParameter(f"{option}: {error}; {remedy}") from None


_HOSTS = typer.Option(
    "--hosts",
    help="The hosts: `lab` (the one that is up), a *.hosts.toml, ssh-config:GLOB, slurm or mpi:HOSTFILE.",
    metavar="lab|FILE|...",
)

Hosts = Annotated[str, _HOSTS]
MaybeHosts = Annotated[str | None, _HOSTS]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all random choices.", min=0, callback=_seed, metavar="N")]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="End a measurement of your own that holds the agents, if there is one.")
]
Threads = Annotated[
    int | None, typer.Option("--threads", help="Threads to use at most. By default one per core.", min=1, metavar="N")
]
AssumedRate = Annotated[
    str | None,
    typer.Option(
        "--assumed-rate",
        help="What paths are taken to carry where no Network tells, to estimate the cost. By default 1gbit.",
        metavar="RATE",
    ),
]
Pilot = Annotated[
    bool,
    typer.Option(
        "--pilot", help="With --dry-run, where no Network tells: send a few probes to learn what the others will cost."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what it would cost and send nothing.")]
Budget = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        help="Refuse to cost more than this: 500MB, 30s or a sum of money. May be repeated.",
        metavar="LIMIT",
    ),
]
PricePerGb = Annotated[float, typer.Option("--price-per-gb", help="Price of sending 10^9 bytes.", min=0, metavar="SUM")]
NetworkFile = Annotated[Path, typer.Argument(help="A Network.", metavar="N.network.json")]
AppFiles = Annotated[list[Path], typer.Argument(help="One or more Apps.", metavar="A.app.toml...")]
PlacementFile = Annotated[Path, typer.Argument(help="A Placement.", metavar="P.placement.json")]
PlacementOutput = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write the Placement to this file.", metavar="P.placement.json")
]
