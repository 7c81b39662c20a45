"""`gavotte guarantee`: the least that hosts may send and receive, whatever others do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.options import Json
from gavotte.cli.output import emit_json, emit_table, note
from gavotte.formats.rates import format_rate

if TYPE_CHECKING:
    from gavotte.guarantee import LinkSum

guarantee = typer.Typer(
    help="Guarantee hosts the bandwidth that a *.guarantee.toml says, and let them share what others leave.",
    no_args_is_help=True,
)

GuaranteeFile = Annotated[Path, typer.Argument(help="The Guarantee.", metavar="G.guarantee.toml")]
SHOWN_LINKS = 10


@guarantee.callback()
def _group() -> None:
    """Keeps `plan` a verb of its own, however few there are."""


@guarantee.command(epilog="Example: gavotte guarantee plan cloud.guarantee.toml --network cloud.network.json")
def plan(
    wanted: GuaranteeFile,
    network: Annotated[
        Path, typer.Option("--network", help="The Network that is to keep it.", metavar="N.network.json")
    ],
    links: Annotated[
        int, typer.Option("--links", help="Number of links to show, the fullest first.", min=0, metavar="N")
    ] = SHOWN_LINKS,
    as_json: Json = False,
) -> None:
    """Say whether every link can carry all that is guaranteed over it. Exits with 1 if one cannot."""
    from gavotte.errors import InfeasibleError
    from gavotte.formats.guarantee import read_guarantee
    from gavotte.formats.network import read_network
    from gavotte.guarantee import plan as admit

    read = read_guarantee(wanted)
    found = admit(read, read_network(network))
    if as_json:
        emit_json(
            {
                "admitted": not found.over,
                "headroom": read.headroom,
                "over": [link.link for link in found.over],
                "links": [_link(link) for link in found.links],
                "unlimited": found.unlimited,
            }
        )
    elif links and found.links:
        columns = ["link", "guaranteed", "may be", "of its rate", "use"]
        emit_table(columns, [_row(link) for link in found.links[:links]])
        if len(found.links) > links:
            note(f"showing the fullest {links} of {len(found.links)} links")
    for host in found.unlimited:
        note(f"warning: the network knows no limit of {host}; whether it can keep its guarantee is unknown")
    if found.over:
        worst = found.over[0]
        more = f", and {len(found.over) - 1} more links are over" if len(found.over) > 1 else ""
        raise InfeasibleError(
            f"{worst.link}: guarantees sum to {format_rate(worst.sum_bps)}, which is more than "
            f"{format_rate(worst.capacity_bps)}, {100 * (1 - read.headroom):g} % of its rate{more}",
            hint="lower them, or place hosts elsewhere",
        )
    note(f"every link can keep the guarantees of {len(read.guarantee)} hosts")


def _link(link: LinkSum) -> dict[str, Any]:
    return {
        "link": link.link,
        "sum_bps": link.sum_bps,
        "capacity_bps": link.capacity_bps,
        "rate_bps": link.rate_bps,
        "over": link.over,
    }


def _row(link: LinkSum) -> list[str]:
    rates = map(format_rate, (link.sum_bps, link.capacity_bps, link.rate_bps))
    return [link.link, *rates, f"{100 * link.use:.0f} %"]
