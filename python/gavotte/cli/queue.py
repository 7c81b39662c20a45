"""`gavotte transfers serve`, and what users ask of it: submit, join, list, cancel, wait."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from gavotte.cli.history import StoreUrl
from gavotte.cli.options import Hosts, Json
from gavotte.cli.output import emit_json, emit_table, note, warn_of_unknown
from gavotte.cli.signals import stop_flag
from gavotte.cli.transfers import transfers
from gavotte.formats.rates import format_bytes

__all__ = ["transfers"]

Socket = Annotated[
    Path | None,
    typer.Option("--socket", help="Where the controller listens. By default in the runtime folder.", metavar="PATH"),
]
Number = Annotated[int, typer.Argument(help="The transfer, as `gavotte transfers list` shows it.", metavar="ID", min=1)]


@transfers.command(epilog="Example: gavotte transfers serve --hosts lab --network cloud.network.json --policy sebf")
def serve(
    hosts: Hosts,
    network: Annotated[Path, typer.Option("--network", help="What joins the hosts.", metavar="N.network.json")],
    policy: Annotated[
        str, typer.Option("--policy", help="Who goes first; `gavotte transfers simulate` compares them.", metavar="P")
    ] = "fifo+",
    store: StoreUrl = None,
    socket: Socket = None,
) -> None:
    """Carry out queued transfers in order, until interrupted. The queue is in the store and outlives this command."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.network import read_network
    from gavotte.store import open_store
    from gavotte.transfer import Controller, default_socket, serving

    inventory, believed = resolve_hosts(hosts), read_network(network)
    warn_of_unknown(believed)
    path = socket or default_socket()
    with open_store(store) as opened, stop_flag() as stop:
        controller = Controller(inventory, believed, opened.queue(), policy)
        waiting = sum(not each.over for each in controller.list())
        with serving(controller, path):
            note(f"listens at {path}; policy {policy}; {waiting} transfers of {opened.name} to carry out")
            controller.run(stop)
    note("stopped; what is not done is taken up by the next `gavotte transfers serve`")


@transfers.command(epilog="Example: gavotte transfers submit model.bin --from vm0 --to vm1,vm2 -o '/tmp/model-{host}'")
def submit(
    file: Annotated[
        Path,
        typer.Argument(
            help="Who sends how much: source,target,bytes. With --from, the object of a broadcast, on that host.",
            metavar="BYTES.csv|FILE",
        ),
    ],
    source: Annotated[
        str | None, typer.Option("--from", help="Makes it a broadcast: the host that has the object.", metavar="HOST")
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", help="Who is to have a copy, separated by commas.", metavar="HOST,..."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="Where copies are to be; {host} stands for the receiver.", metavar="PATH"),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", help="Of a broadcast: auto, chain, tree, binomial or mesh.", metavar="NAME"),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="What to call it. By default the file's name.")] = "",
    priority_class: Annotated[
        int, typer.Option("--class", help="Under `priority`; 0 goes first.", min=0, max=999, metavar="N")
    ] = 0,
    weight: Annotated[
        float, typer.Option("--weight", help="Under `weighted`.", min=0.001, max=1000, metavar="X")
    ] = 1.0,
    socket: Socket = None,
    as_json: Json = False,
) -> None:
    """Queue a matrix of bytes, or a broadcast, and print the number of its transfer."""
    from gavotte.formats.byte_matrix import read_byte_matrix
    from gavotte.transfer import Client

    about: dict[str, Any] = {"name": name or file.stem, "user": _user()}
    about |= {"priority_class": priority_class, "weight": weight}
    if source is None:
        if to or output or mechanism:
            raise typer.BadParameter("--to, --output and --mechanism are for a broadcast, which --from makes it")
        flows = read_byte_matrix(file)
        with Client(socket) as client:
            entry = client.submit(flows, **about)
    else:
        if not to or not output:
            raise typer.BadParameter("a broadcast needs --to and --output")
        targets = [host for part in to for host in part.split(",") if host]
        where = _absolute(output)
        with Client(socket) as client:
            entry = client.submit_broadcast(
                str(file.absolute()), source, targets, where, mechanism=mechanism or "auto", **about
            )
    if as_json:
        emit_json(entry)
    else:
        typer.echo(entry["id"])


@transfers.command(epilog="Example: gavotte transfers join 3 vm7 -o /tmp/model")
def join(
    number: Number,
    host: Annotated[str, typer.Argument(help="Who is to have a copy, too.", metavar="HOST")],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="Where it is to be. By default as the others'.", metavar="PATH"),
    ] = None,
    socket: Socket = None,
    as_json: Json = False,
) -> None:
    """Have one host more receive a broadcast that is not over."""
    from gavotte.transfer import Client

    with Client(socket) as client:
        _show(client.join(number, host, "" if output is None else _absolute(output)), as_json)


@transfers.command("list", epilog="Example: gavotte transfers list --unfinished")
def list_(
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only those that are not over.")] = False,
    socket: Socket = None,
    as_json: Json = False,
) -> None:
    """Show the queue."""
    from gavotte.transfer import Client

    with Client(socket) as client:
        policy, entries = client.list(unfinished=unfinished)
    if as_json:
        emit_json({"policy": policy, "transfers": entries})
        return
    columns = ["id", "kind", "name", "user", "state", "class", "moved", "of", "after s", "error"]
    emit_table(columns, [_row(entry) for entry in entries], words=("kind", "name", "user", "state", "error"))
    note(f"policy {policy}")


@transfers.command(epilog="Example: gavotte transfers cancel 3")
def cancel(number: Number, socket: Socket = None, as_json: Json = False) -> None:
    """End a transfer that is not over."""
    from gavotte.transfer import Client

    with Client(socket) as client:
        _show(client.cancel(number), as_json)


@transfers.command(epilog="Example: gavotte transfers wait 3 --timeout 600")
def wait(
    number: Number,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Give up after so long.", min=0, metavar="SECONDS")
    ] = None,
    socket: Socket = None,
    as_json: Json = False,
) -> None:
    """Wait until a transfer is over. The exit status is 0 if all its bytes have moved, else 1."""
    from gavotte.errors import GavotteError
    from gavotte.transfer import Client

    with Client(socket) as client:
        entry = client.wait(number) if timeout is None else client.wait(number, timeout)
    _show(entry, as_json)
    if entry["state"] != "done":
        raise GavotteError(f"transfer {number} is {entry['state']}", hint=entry["error"])


def _show(entry: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(entry)
        return
    after = "" if entry["completion_s"] is None else f" after {entry['completion_s']:.2f} s"
    moved = f"{format_bytes(entry['moved_bytes'])} of {format_bytes(entry['bytes'])}"
    note(f"transfer {entry['id']} ({entry['name']}): {entry['state']}{after}, {moved} moved")


def _row(entry: dict[str, Any]) -> list[str]:
    after = "" if entry["completion_s"] is None else f"{entry['completion_s']:.2f}"
    return [
        str(entry["id"]),
        entry["kind"],
        entry["name"],
        entry["user"],
        entry["state"],
        str(entry["class"]),
        format_bytes(entry["moved_bytes"]),
        format_bytes(entry["bytes"]),
        after,
        entry["error"],
    ]


def _absolute(output: str) -> str:
    return str(Path(output).absolute()) if not output.endswith("/") else output


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())
