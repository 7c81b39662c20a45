"""`gavotte hosts`: list and check hosts, find slow ones, install agents, make keys."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.options import Hosts, Json
from gavotte.cli.output import emit_json, emit_table, note, printable, warn
from gavotte.cli.progress import progress
from gavotte.cli.slow import slow
from gavotte.cli.writing import to_write
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes

if TYPE_CHECKING:
    from gavotte.hosts import Path as PathState

hosts = typer.Typer(
    help="List and check your hosts, find slow ones, install agents on them, make keys for TLS.", no_args_is_help=True
)

Output = Annotated[Path | None, to_write("Write the Inventory to this file.", "X.hosts.toml")]


@dataclass(frozen=True)
class _Source:
    """Where hosts are listed."""

    ssh_config: Path | None = option("Take the hosts of this ssh configuration.", "FILE")
    listing: list[str] | None = option(
        "Take the hosts that a cloud's command line, kubectl, ansible-inventory or terraform has listed in this JSON "
        "file; - is stdin. If repeated, hosts are put together from all files.",
        "FILE",
    )
    match: str | None = option(
        "Take only hosts with these names; without another source those of ~/.ssh/config.", "GLOB[,GLOB]"
    )
    slurm: bool = option("Take the hosts of the Slurm allocation that this runs in.", default=False)
    mpi_hostfile: Path | None = option("Take the hosts of this Open MPI or MPICH hostfile.", "FILE")
    kubeconfig: bool = option("Take the nodes of the Kubernetes cluster that the kubeconfig names.", default=False)
    context: str | None = option("Context of the --kubeconfig, instead of its current one.", "CONTEXT")
    user: str | None = option("Login name on nodes, and on hosts of a --listing that has none.", "NAME")
    public: bool = option("Connect to nodes, and hosts of a --listing, at their public addresses.", default=False)

    @property
    def by_ssh(self) -> bool:
        """Whether an ssh configuration has the hosts."""
        return self.ssh_config is not None or (self.match is not None and not self.lists)

    @property
    def lists(self) -> bool:
        """Whether a listing, or a cluster's API server, has the hosts."""
        return bool(self.listing) or self.kubeconfig

    def check(self) -> None:
        """Refuse options that do not belong together."""
        others = self.slurm + (self.mpi_hostfile is not None) + bool(self.listing) + self.kubeconfig
        if self.by_ssh + others != 1:
            raise typer.BadParameter(
                "use one of --ssh-config (or --match), --listing, --kubeconfig, --slurm and --mpi-hostfile"
            )
        if not self.lists and (self.user is not None or self.public):
            raise typer.BadParameter("--user and --public belong to --listing and --kubeconfig")
        if self.context is not None and not self.kubeconfig:
            raise typer.BadParameter("--context belongs to --kubeconfig")


@hosts.command("import", epilog="Example: gavotte hosts import --match 'web*,db?' -o my.hosts.toml")
@declared
def bring(source: _Source, output: Output = None, as_json: Json = False) -> None:
    """Make an Inventory from an ssh configuration, a listing, a Kubernetes cluster, Slurm or an MPI hostfile."""
    from gavotte.agents.sources import from_kubeconfig, from_mpi, from_slurm, from_ssh_config
    from gavotte.agents.sources.listings import from_listings
    from gavotte.formats.inventory import format_inventory, write_inventory

    source.check()
    if source.lists:
        listing = (
            from_listings(source.listing, match=source.match or "*", user=source.user, public=source.public)
            if source.listing
            else from_kubeconfig(
                source.context or "", match=source.match or "*", user=source.user, public=source.public
            )
        )
        inventory = listing.inventory
        warn([f"{host}: left out: {reason}" for host, reason in listing.absent.items()])
    elif source.mpi_hostfile is not None:
        inventory = from_mpi(source.mpi_hostfile)
    elif source.slurm:
        inventory = from_slurm(os.environ)
    else:
        inventory = from_ssh_config("*" if source.match is None else source.match, file=source.ssh_config)
    if output is not None:
        write_inventory(output, inventory)
    if as_json:
        _emit(inventory)
    elif output is None:
        typer.echo(format_inventory(inventory), nl=False)
    note(f"{len(inventory.host)} host{'s' * (len(inventory.host) > 1)}" + (f" in {output}" if output else ""))


@hosts.command("export", epilog="Example: gavotte hosts export --hosts my.hosts.toml --format ansible -o hosts.ini")
def export(
    hosts: Hosts,
    form: Annotated[
        str, typer.Option("--format", metavar="NAME", help="ansible, ssh-config, openmpi, mpich or terraform.")
    ],
    output: Annotated[Path | None, to_write("Write the file here; without this option, to stdout.", "FILE")] = None,
    as_json: Json = False,
) -> None:
    """Write hosts in the format of another tool: Ansible, ssh, Open MPI, MPICH or Terraform."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.files.reading import write_text
    from gavotte.hosts.exporting import exported

    inventory = resolve_hosts(hosts)
    text = exported(inventory, form)
    if output is not None:
        write_text(output, text)
        note(f"{output} written")
    if as_json:
        emit_json({"format": form, "hosts": inventory.names, "text": text})
    elif output is None:
        typer.echo(text, nl=False)


@hosts.command("list", epilog="Example: gavotte hosts list --hosts my.hosts.toml")
def show(hosts: Hosts, as_json: Json = False) -> None:
    """List the hosts that --hosts names, without contacting them."""
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


@hosts.command(epilog="Example: gavotte hosts check --hosts ssh-config:web*")
def check(hosts: Hosts, output: Output = None, as_json: Json = False) -> int:
    """Check that hosts can be used and reach each other by TCP and UDP. Exits with 1 if not."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.inventory import write_inventory
    from gavotte.hosts import check as ask

    with progress("checking hosts"):
        result = ask(resolve_hosts(hosts))
    if output is not None:
        write_inventory(output, result.inventory)
    if as_json:
        emit_json(
            {
                "usable": result.usable,
                "hosts": [host.as_dict() for host in result.hosts],
                "paths": [path.as_dict() for path in result.paths],
                "rules": result.rules,
            }
        )
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
        _emit_paths(result.paths)
    for host in result.hosts:
        if host.address_name:
            note(f"{host.name}: {host.address_name} is {host.address}")
        if host.place:
            note(f"{host.name}: its agent {host.place}")
    warn(result.warnings)
    lacking: dict[str, list[str]] = {}
    for host in result.hosts:
        for part in host.lacking:
            lacking.setdefault(part, []).append(host.name)
    for part, names in lacking.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        note(f"{', '.join(names[:3])}{more}: without {part}")
    for rule in result.rules:
        note(f"firewall: {rule}")
    bad = len(result.hosts) - result.usable
    note(f"{result.usable} of {counted(len(result.hosts), 'host')} can be used")
    if result.paths:
        tested = counted(len(result.paths), "pair")
        spread = "; each host tested a selection of the others" if result.sampled else ""
        note(f"{len(result.paths) - result.unusable_paths} of {tested} can be used{spread}")
    return 1 if bad or result.unusable_paths else 0


MOST_ROWS = 20
"""Most failing pairs in the table; --json has all."""


def _emit_paths(paths: Sequence[PathState]) -> None:
    """Print how many pairs each protocol passes, and which pairs fail."""
    if not paths:
        return
    words = dict.fromkeys(word for path in paths for word in ("ok", path.tcp, path.udp))
    rows = [
        [name, str(len(outcomes)), *(str(outcomes.count(word)) for word in words)]
        for name, outcomes in (("TCP", [path.tcp for path in paths]), ("UDP", [path.udp for path in paths]))
    ]
    typer.echo()
    emit_table(["protocol", "pairs", *words], rows)
    failing = [path for path in paths if (path.tcp, path.udp) != ("ok", "ok")]
    if failing:
        typer.echo()
        rows = [[path.source, path.target, str(path.port), path.tcp, path.udp] for path in failing[:MOST_ROWS]]
        emit_table(["from", "to", "port", "TCP", "UDP"], rows, words=("to", "TCP", "UDP"))
    if len(failing) > MOST_ROWS:
        note(f"{len(failing) - MOST_ROWS} more pairs fail; --json lists all")


hosts.command(epilog="Example: gavotte hosts slow --hosts lab")(slow)


@dataclass(frozen=True)
class _Wanted:
    """What to do with the agents of hosts."""

    removed: bool = option("Remove all copies of the agent instead.", None, "--remove", default=False)
    dry_run: bool = option("Only print which versions each host has.", default=False)


@hosts.command(epilog="Example: gavotte hosts install --hosts my.hosts.toml")
@declared
def install(hosts: Hosts, wanted: _Wanted, as_json: Json = False) -> int:
    """Install the agent on every host over SSH, verify it, and remove other versions. Exits with 1 if one fails."""
    from gavotte.agents import resolve_hosts
    from gavotte.hosts import install, installed, remove

    if wanted.removed and wanted.dry_run:
        raise typer.BadParameter("--dry-run removes nothing; leave out --remove")
    inventory = resolve_hosts(hosts)
    work, what = (installed, "asking hosts") if wanted.dry_run else (install, "installing agents")
    work, what = (remove, "removing agents") if wanted.removed else (work, what)
    with progress(what):
        done = work(inventory)
    if as_json:
        emit_json({"hosts": [host.as_dict() for host in done]})
    else:
        rows = [[host.name, "yes" if host.installed else "no", host.verdict] for host in done]
        emit_table(["host", "installed", "verdict"], rows, words=("installed", "verdict"))
    return 0 if all(host.ok for host in done) else 1


hosts.command("deploy", hidden=True, deprecated=True, epilog="Example: gavotte hosts deploy --hosts my.hosts.toml")(
    install
)


@hosts.command(epilog="Example: gavotte hosts keys -o keys node1=10.0.0.1 node2=10.0.0.2")
@declared
def keys(
    output: Path = option("Folder to write the keys to.", "DIR", "-o", "--output", default=REQUIRED),
    host: Annotated[
        list[str] | None,
        typer.Argument(
            help="NAME, or NAME=ADDRESS,ADDRESS with the addresses at which the controller reaches it.", metavar="HOST"
        ),
    ] = None,
    hosts: str | None = option("Make keys for all hosts of this inventory.", "FILE"),
    days: int = option("Days that the keys are valid.", "N", default=365, min=1, max=36500),
    add: bool = option("Add hosts to the authority that is already in DIR.", default=False),
    force: bool = option("Replace keys that are already in DIR.", default=False),
    as_json: Json = False,
) -> None:
    """Make a certificate authority and keys for the controller and the hosts, for agents behind mutual TLS."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.parts.routes import TlsRoute
    from gavotte.hosts import Bearer, read_bearer
    from gavotte.hosts import keys as make

    bearers = [read_bearer(text) for text in host or []]
    if hosts is not None:
        for entry in resolve_hosts(hosts).host:
            tls = entry.route if isinstance(entry.route, TlsRoute) else None
            place = entry.address if tls is None else tls.name or tls.host
            bearers.append(Bearer(entry.name, tuple(dict.fromkeys((entry.name, entry.address, place)))))
    files = make(output, bearers, days=days, add=add, force=force)
    if as_json:
        emit_json(
            {"folder": str(output), "hosts": [bearer.name for bearer in bearers], "files": [str(f) for f in files]}
        )
        return
    note(f"{len(files)} files in {output}; copy {output}/hosts/NAME to each host and do not copy the other files")


@hosts.command(epilog="Example: gavotte hosts logs vm3 --hosts lab --lines 20")
@declared
def logs(
    host: Annotated[str, typer.Argument(help="Host whose log to print.", metavar="HOST")],
    hosts: Hosts = "lab",
    lines: int = option("Number of lines, counted from the end.", default=100, min=1, max=10_000),
    as_json: Json = False,
) -> None:
    """Print the last lines that a host's agent has logged."""
    from gavotte.agents import resolve_hosts
    from gavotte.hosts import logs as ask

    entries = ask(resolve_hosts(hosts), host, lines=lines)
    if as_json:
        emit_json({"host": host, "lines": entries})
        return
    for line in entries:
        typer.echo(printable(line))


def _emit(inventory: Inventory) -> None:
    emit_json(inventory.model_dump(exclude_unset=True, exclude_none=True))
