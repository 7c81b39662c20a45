"""Options and arguments that several verbs share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timezone
from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.writing import to_write
from gavotte.errors import GavotteError


def _seed(seed: int) -> int:
    if seed >= 2**63:
        raise typer.BadParameter("the largest seed is 2^63 - 1")
    return seed


def separated(parts: Sequence[str]) -> list[str]:
    """Return the names of an option that may be repeated, and whose values are names separated by commas."""
    return [name for part in parts for name in part.split(",") if name]


def copy_path(output: str) -> str:
    """Return the absolute path of an --output at receivers; a folder is left as it is, to be refused."""
    return output if output.endswith("/") else str(Path(output).absolute())


def read_rate(option: str, text: str) -> float:
    """Read the rate of an option, in bit/s.

    Raises:
        BadParameter: naming the option.
    """
    from pydantic_core import PydanticCustomError

    from gavotte.formats.parts.rate_fields import parse_rate

    try:
        return parse_rate(text)
    except PydanticCustomError as error:
        remedy = (error.context or {})["remedy"]
        raise typer.BadParameter(f"{option}: {error}; {remedy}") from None


def read_size(option: str, text: str) -> int:
    """Read the size of an option, in bytes.

    Raises:
        GavotteError: naming the option.
    """
    from gavotte.formats.parts.rate_fields import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise GavotteError(f"{option}: {error}", hint="use e.g. 8MB") from None


def moment(text: str) -> float:
    """Read Unix seconds, or an ISO 8601 date, in UTC by default.

    Raises:
        BadParameter: for anything else.
    """
    from gavotte.terms.dates import read_date

    try:
        seconds = float(text)
    except ValueError:
        try:
            date = read_date(text)
        except ValueError:
            raise typer.BadParameter(f"`{text}` is not a time: use Unix seconds or e.g. 2026-11-20T18:00:00Z") from None
        seconds = (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp()
    if not math.isfinite(seconds):
        raise typer.BadParameter(f"`{text}` is not a time: use Unix seconds or e.g. 2026-11-20T18:00:00Z")
    return seconds


_HOSTS = typer.Option(
    "--hosts",
    help="The hosts: `lab` (the running lab), a *.hosts.toml, ssh-config:GLOB, slurm, mpi:HOSTFILE, listing:JSON, "
    "kubeconfig[:CONTEXT], or names: a,b,c.",
    metavar="lab|FILE|...",
)

Hosts = Annotated[str, _HOSTS]
MaybeHosts = Annotated[str | None, _HOSTS]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all random choices.", min=0, callback=_seed, metavar="N")]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="End your own earlier measurement if it still holds the agents.")
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", help="Maximum number of threads. By default one per core.", min=1, metavar="N"),
]
AssumedRate = Annotated[
    str | None,
    typer.Option(
        "--assumed-rate",
        help="Rate to assume for paths that --network does not cover, when estimating the cost. By default 1gbit.",
        metavar="RATE",
    ),
]
Pilot = Annotated[
    bool | None,
    typer.Option(
        "--pilot/--no-pilot",
        help="Send a few probes first to predict the cost. By default where the estimate may be off by more than a "
        "factor of two without them: no --network has the hosts.",
        show_default=False,
    ),
]
Encrypt = Annotated[bool, typer.Option("--encrypt", help="Encrypt the data between hosts.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the cost and send nothing.")]
DryRunWithPilot = Annotated[
    bool, typer.Option("--dry-run", help="Print the cost and send nothing, or only the probes of --pilot.")
]
Budget = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        help="Refuse to spend more than this: 500MB, 30s or a sum of money. May be repeated.",
        metavar="LIMIT",
    ),
]
PricePerGb = Annotated[float, typer.Option("--price-per-gb", help="Price of sending 10^9 bytes.", min=0, metavar="SUM")]
NetworkFile = Annotated[Path, typer.Argument(help="A Network.", metavar="N.network.json")]
AppFiles = Annotated[list[Path], typer.Argument(help="One or more Apps.", metavar="A.app.toml...")]
PlacementFile = Annotated[Path, typer.Argument(help="A Placement.", metavar="P.placement.json")]
PlacementOutput = Annotated[Path | None, to_write("Write the Placement to this file.", "P.placement.json")]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="The database: FILE, sqlite:///FILE or postgresql://USER@HOST/DATABASE. "
        "By default $GAVOTTE_STORE, or else gavotte/gavotte.sqlite3 below $XDG_DATA_HOME.",
        metavar="URL",
    ),
]
