"""`gavotte guarantee`: minimum rates at which hosts can send and receive, whatever others do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.options import Hosts, Json
from gavotte.cli.output import emit_json, emit_table, note, warn
from gavotte.cli.progress import progress
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_apart, format_rate

if TYPE_CHECKING:
    from gavotte.guarantee import LinkSum

guarantee = typer.Typer(
    help="Guarantee hosts the bandwidth given in a *.guarantee.toml, and let them share unused bandwidth.",
    no_args_is_help=True,
)

GuaranteeFile = Annotated[Path, typer.Argument(help="The Guarantee.", metavar="G.guarantee.toml")]
BROKEN = 3
"""Exit status of `status` when a guarantee was broken in the last minute."""
SHOWN_LINKS = 10
CERTAIN = 0.01
"""Share up to which a measured rate is certain."""


@guarantee.command(epilog="Example: gavotte guarantee plan cloud.guarantee.toml --network cloud.network.json")
@declared
def plan(
    wanted: GuaranteeFile,
    network: Path = option("Network whose links must carry the guarantees.", "N.network.json", default=REQUIRED),
    links: int = option("Number of links to show, the fullest first.", "N", default=SHOWN_LINKS, min=0),
    as_json: Json = False,
) -> None:
    """Check that every link can carry all guarantees over it. Exits with 1 if one cannot."""
    from gavotte.errors import InfeasibleError
    from gavotte.formats.guarantee import read_guarantee
    from gavotte.formats.network import read_network
    from gavotte.guarantee import plan as admit

    read, believed = read_guarantee(wanted), read_network(network)
    with progress("checking links"):
        admission = admit(read, believed)
    if as_json:
        emit_json(
            {
                "admitted": not admission.over,
                "headroom": read.headroom,
                "over": [link.link for link in admission.over],
                "links": [_link(link) for link in admission.links],
                "unlimited": admission.unlimited,
            }
        )
    elif links and admission.links:
        columns = ["link", "guaranteed", "at most", "rate", "use", "verdict"]
        emit_table(columns, [_row(link) for link in admission.links[:links]], words=["verdict"])
        if len(admission.links) > links:
            note(f"showing the fullest {links} of {len(admission.links)} links")
    warn(admission.warnings)
    if admission.over:
        worst = admission.over[0]
        more = f", and {len(admission.over) - 1} more links have too much" if len(admission.over) > 1 else ""
        sum_rate, most = format_apart(worst.sum_bps, worst.capacity_bps)
        raise InfeasibleError(
            f"{worst.link} cannot keep its guarantees: they sum to {sum_rate}, which is more than "
            f"{most}, {100 * (1 - read.headroom):g} % of its rate{more}",
            hint="lower the headroom a little, since rates are certain to about 1 %, or lower the guarantees"
            if worst.use < 1 + CERTAIN
            else "lower them, or place hosts elsewhere",
        )
    note(f"every link can keep the guarantees of {counted(len(read.guarantee), 'host')}")


@guarantee.command(epilog="Example: gavotte guarantee apply cloud.guarantee.toml --hosts lab")
@declared
def apply(
    wanted: GuaranteeFile,
    hosts: Hosts,
    static: bool = option("Limit each pair to its guarantee, even if more bandwidth is free.", default=False),
    constant: list[str] | None = option(
        "Change a constant of the limiter, e.g. delta_bps=2.5e6. May be repeated.", "NAME=X", "--set"
    ),
    dry_run: bool = option("Print what would change, and change nothing.", default=False),
    as_json: Json = False,
) -> None:
    """Make the hosts' agents enforce guarantees from now on, or change those that they enforce."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.guarantee import read_guarantee
    from gavotte.guarantee import apply as keep
    from gavotte.guarantee import check_hosts, warnings_of

    read = read_guarantee(wanted)
    inventory = resolve_hosts(hosts)
    constants = dict(map(_constant, constant or []))
    check_hosts(read, inventory)
    warn(warnings_of(read, inventory))
    if dry_run:
        rows = [
            [own.host, *map(_rate, (own.egress, own.ingress, own.egress_limit, own.ingress_limit))]
            for own in read.guarantee
        ]
        if as_json:
            emit_json({"mode": read.mode, "static": static, "guarantee": [own.model_dump() for own in read.guarantee]})
        else:
            emit_table(["host", "egress", "ingress", "egress limit", "ingress limit"], rows)
        note(f"nothing was changed; {counted(len(read.guarantee), 'host')} would have guarantees, mode {read.mode}")
        return
    with progress("applying guarantees"):
        done = keep(read, inventory, fixed=static, constants=constants)
    warn(done.warnings)
    if as_json:
        emit_json({"hosts": [vars(host) for host in done.hosts], "missing": done.missing})
    note(f"guarantees are enforced on {counted(len(done.hosts), 'host')} until `gavotte guarantee clear`")


@guarantee.command(epilog="Example: gavotte guarantee status --hosts lab")
@declared
def status(
    hosts: Hosts,
    as_json: Json = False,
    prometheus: bool = option("Print metrics in the Prometheus text format.", default=False),
) -> int:
    """Show each pair's guarantee, limit and rate, and how often it was met. Exits with 3 if a guarantee is broken."""
    from gavotte.agents import resolve_hosts
    from gavotte.guarantee import prometheus as expose
    from gavotte.guarantee import status as ask

    if as_json and prometheus:
        raise typer.BadParameter("use one of --json and --prometheus")
    with progress("asking agents"):
        state = ask(resolve_hosts(hosts))
    warn(state.warnings)
    result = BROKEN if state.broken else 0
    if as_json:
        emit_json(state.as_dict())
        return result
    if prometheus:
        typer.echo(expose(state), nl=False)
        return result
    rows = [
        [
            pair.source,
            pair.target,
            *map(format_rate, (pair.guarantee_bps, pair.limit_bps, pair.rate_bps)),
            "-" if pair.met is None else f"{100 * pair.met:.1f} %",
            str(pair.marks),
            str(pair.lost),
            pair.why,
        ]
        for pair in state.pairs
    ]
    columns = ["source", "target", "guarantee", "limit", "rate", "met", "marks", "lost", "why"]
    emit_table(columns, rows, words=("target", "why"))
    for host in state.hosts:
        if host.why:
            note(f"{host.host}: {host.why}")
    return result


@guarantee.command(epilog="Example: gavotte guarantee clear --hosts lab")
def clear(hosts: Hosts, as_json: Json = False) -> int:
    """Remove all guarantees from the hosts. Exits with 1 if a host does not answer."""
    from gavotte.agents import resolve_hosts
    from gavotte.guarantee import clear as end

    with progress("removing guarantees"):
        done = end(resolve_hosts(hosts))
    if as_json:
        emit_json({"cleared": done.devices, "unreached": done.unreached})
    for host, reason in done.unreached.items():
        note(f"{host}: {reason}; it resumes its guarantees when its agent starts again, so clear them again then")
    note(f"guarantees removed from {counted(len(done.devices), 'host')}")
    return 1 if done.unreached else 0


def _constant(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise typer.BadParameter(f"`{text}` is not NAME=NUMBER") from None


def _rate(rate: float | None) -> str:
    return "-" if rate is None else format_rate(rate)


def _link(link: LinkSum) -> dict[str, Any]:
    return {
        "link": link.link,
        "sum_bps": link.sum_bps,
        "capacity_bps": link.capacity_bps,
        "rate_bps": link.rate_bps,
        "over": link.over,
    }


def _row(link: LinkSum) -> list[str]:
    rates = *format_apart(link.sum_bps, link.capacity_bps), format_rate(link.rate_bps)
    return [link.link, *rates, _use(link), "cannot keep" if link.over else "can keep"]


def _use(link: LinkSum) -> str:
    """Return the use in percent, with as many digits as it takes to see whether the link has too much."""
    for digits in range(7):
        text = f"{100 * link.use:.{digits}f} %"
        if float(text.split()[0]) != 100:
            return text
    return "100 %"
