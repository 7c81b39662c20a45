"""`gavotte hosts`: which hosts there are, whether they can be reached, and what they need for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.output import Hosts, Json, emit_json, emit_table, note
from gavotte.formats.inventory import Inventory
from gavotte.formats.rates import format_bytes

hosts = typer.Typer(
    help="Your hosts: import an inventory, check it, install agents, make keys for TLS.", no_args_is_help=True
)

Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write the Inventory here.", metavar="X.hosts.toml")
]


@hosts.command("import")
def bring(
    ssh_config: Annotated[
        Path | None, typer.Option("--ssh-config", help="Hosts of this ssh configuration.", metavar="FILE")
    ] = None,
    match: Annotated[
        str | None,
        typer.Option("--match", help="Only those of these names; alone: of ~/.ssh/config.", metavar="GLOB[,GLOB]"),
    ] = None,
    slurm: Annotated[bool, typer.Option("--slurm", help="Hosts of the Slurm allocation this runs in.")] = False,
    mpi_hostfile: Annotated[
        Path | None, typer.Option("--mpi-hostfile", help="Hosts of an Open MPI or MPICH hostfile.", metavar="FILE")
    ] = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Make an Inventory of what you have: an ssh configuration, a Slurm allocation, an MPI hostfile."""
    from gavotte.agents.sources import from_mpi, from_slurm, from_ssh_config
    from gavotte.formats.inventory import format_inventory, write_inventory

    by_ssh = ssh_config is not None or match is not None
    if by_ssh + slurm + (mpi_hostfile is not None) != 1:
        raise typer.BadParameter("give one of --ssh-config (or --match), --slurm, --mpi-hostfile")
    if mpi_hostfile is not None:
        inventory = from_mpi(mpi_hostfile)
    elif slurm:
        inventory = from_slurm(os.environ)
    else:
        inventory = from_ssh_config("*" if match is None else match, file=ssh_config)
    if output is not None:
        write_inventory(output, inventory)
    if as_json:
        _emit(inventory)
    elif output is None:
        typer.echo(format_inventory(inventory), nl=False)
    note(f"{len(inventory.host)} host{'s' * (len(inventory.host) > 1)}" + (f" in {output}" if output else ""))


@hosts.command("list")
def show(hosts: Hosts, as_json: Json = False) -> None:
    """Print the hosts that --hosts names, without speaking to any."""
    from gavotte.agents import resolve_hosts

    inventory = resolve_hosts(hosts)
    if as_json:
        _emit(inventory)
        return
    rows = [
        [
            host.name,
            host.address,
            host.agent,
            f"{host.cpus:g}" if "cpus" in host.model_fields_set else "-",
            format_bytes(host.memory_bytes) if host.memory_bytes else "-",
        ]
        for host in inventory.host
    ]
    emit_table(["host", "address", "agent", "cpus", "memory"], rows, words=("address", "agent"))


@hosts.command()
def check(hosts: Hosts, output: Output = None, as_json: Json = False) -> int:
    """Reach every host and tell how its agent is; exit status 1 when one cannot be used."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.inventory import write_inventory
    from gavotte.hosts import check as ask

    result = ask(resolve_hosts(hosts))
    if output is not None:
        write_inventory(output, result.inventory)
    if as_json:
        emit_json({"usable": result.usable, "hosts": [host.as_dict() for host in result.hosts]})
    else:
        rows = [
            [
                host.name,
                "yes" if host.reachable else "no",
                host.version or "-",
                host.kernel or "-",
                "-" if host.cpus is None else f"{host.cpus:g}",
                format_bytes(host.memory_bytes) if host.memory_bytes else "-",
                host.congestion or "-",
                host.verdict,
            ]
            for host in result.hosts
        ]
        columns = ["host", "reachable", "agent", "kernel", "cpus", "memory", "congestion", "verdict"]
        emit_table(columns, rows, words=("reachable", "agent", "kernel", "congestion", "verdict"))
    for host in result.hosts:
        if host.inside_address and host.inside_address != host.address:
            note(
                f"warning: {host.name}: its SSH server took the connection at {host.inside_address}, the inventory "
                f"says {host.address}; other hosts may reach it better there"
            )
    bad = len(result.hosts) - result.usable
    note(f"{result.usable} of {len(result.hosts)} hosts can be used")
    return 1 if bad else 0


@hosts.command()
def deploy(hosts: Hosts, as_json: Json = False) -> int:
    """Install the agent over SSH, its checksum verified; exit status 1 when that fails somewhere."""
    from gavotte.agents import resolve_hosts
    from gavotte.hosts import deploy as install

    done = install(resolve_hosts(hosts))
    if as_json:
        emit_json({"hosts": [host.as_dict() for host in done]})
    else:
        rows = [[host.name, "yes" if host.installed else "no", host.verdict] for host in done]
        emit_table(["host", "installed", "verdict"], rows, words=("installed", "verdict"))
    return 0 if all(host.installed for host in done) else 1


@hosts.command()
def keys(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to make.", metavar="DIR")],
    host: Annotated[
        list[str] | None, typer.Argument(help="NAME, or NAME=ADDRESS,ADDRESS as the controller reaches it.")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option("--hosts", help="For all hosts of this inventory.", metavar="FILE")
    ] = None,
    days: Annotated[int, typer.Option("--days", help="How long they are valid.", min=1, max=36500)] = 365,
    add: Annotated[bool, typer.Option("--add", help="Sign for more hosts by the authority in DIR.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    as_json: Json = False,
) -> None:
    """Make an authority, the controller's and the hosts' keys for agents behind mutual TLS."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.routes import TlsRoute
    from gavotte.hosts import Bearer, read_bearer
    from gavotte.hosts import keys as make

    bearers = [read_bearer(text) for text in host or []]
    if hosts is not None:
        for found in resolve_hosts(hosts).host:
            place = found.route.host if isinstance(found.route, TlsRoute) else found.address
            bearers.append(Bearer(found.name, tuple(dict.fromkeys((found.name, found.address, place)))))
    files = make(output, bearers, days=days, add=add, force=force)
    if as_json:
        emit_json(
            {"folder": str(output), "hosts": [bearer.name for bearer in bearers], "files": [str(f) for f in files]}
        )
        return
    note(f"{len(files)} files in {output}; copy {output}/hosts/NAME to each host and keep the rest here")


def _emit(inventory: Inventory) -> None:
    emit_json(inventory.model_dump(exclude_unset=True, exclude_none=True))
