"""`gavotte transfers serve`, and the commands of its users: submit, join, list, cancel, wait."""

from __future__ import annotations

import getpass
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gavotte.cli import lists
from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.options import Encrypt, Hosts, Json, StoreUrl, copy_path, separated
from gavotte.cli.output import emit_json, emit_table, note, unknown_pairs, warn
from gavotte.cli.progress import progress
from gavotte.cli.signals import stop_flag
from gavotte.cli.transfers import transfers
from gavotte.formats.parts.rates import format_bytes

__all__ = ["transfers"]

Socket = Annotated[
    Path | None,
    typer.Option("--socket", help="Socket of the controller. By default in the runtime folder.", metavar="PATH"),
]
Late = Literal["refuse", "demote"]
Number = Annotated[
    int, typer.Argument(help="Number of the transfer, from `gavotte transfers list`.", metavar="ID", min=1)
]


@transfers.command(
    cls=lists.command("transfers serve"),
    epilog="Example: gavotte transfers serve --hosts lab --network cloud.network.json --policy sebf",
)
@declared
def serve(
    hosts: Hosts,
    network: Path = option("The Network between the hosts.", "N.network.json", default=REQUIRED),
    policy: str = option(
        "Order of transfers. `gavotte transfers simulate` compares the policies.", "P", default="fifo+"
    ),
    store: StoreUrl = None,
    socket: Socket = None,
) -> None:
    """Carry out queued transfers in order, until interrupted. The queue is in the store and outlives this command."""
    from gavotte.agents import resolve_hosts
    from gavotte.formats.network import read_network
    from gavotte.store import open_store
    from gavotte.transfer import Controller, default_socket, serving

    inventory, believed = resolve_hosts(hosts), read_network(network)
    warn(unknown_pairs(believed))
    path = socket or default_socket()
    with open_store(store) as opened, stop_flag() as stop:
        controller = Controller(inventory, believed, opened.queue(), policy)
        waiting = sum(not each.over for each in controller.list())
        with serving(controller, path):
            note(f"listening at {path}; policy {policy}; {waiting} transfers of {opened.name} to carry out")
            controller.run(stop, lambda text: warn([text]))
    note("stopped; the next `gavotte transfers serve` continues unfinished transfers")


@dataclass(frozen=True)
class CopyOptions:
    """The copies of a broadcast."""

    source: str | None = option("Host that has the file; makes the transfer a broadcast.", "HOST", "--from")
    to: list[str] | None = option("Receiving hosts, separated by commas.", "HOST,...")
    output: str | None = option(
        "Path of the copies; {host} is replaced by the receiver's name.", "PATH", "-o", "--output"
    )
    mechanism: str | None = option("Mechanism of a broadcast.", "NAME")


@dataclass(frozen=True)
class EntryOptions:
    """How the queue treats the transfer."""

    name: str = option("Name of the transfer. By default the file's name.", default="")
    priority_class: int = option(
        "Class under policy `priority`; 0 goes first.", "N", "--class", default=0, min=0, max=999
    )
    weight: float = option("Weight under policy `weighted`.", "X", default=1.0, min=0.001, max=1000)
    encrypt: Encrypt = False


@dataclass(frozen=True)
class DeadlineOptions:
    """Until when the transfer has to be done."""

    deadline: float | None = option(
        "Finish within this many seconds, or refuse the transfer now. Only for a matrix of bytes.",
        "SECONDS",
        min=0,
        show_default=False,
    )
    late: Late = option(
        "Treatment of a transfer whose deadline cannot be promised. A demoted one is queued without a promise.",
        "refuse|demote",
        default="refuse",
    )


@transfers.command(
    cls=lists.command("transfers submit"),
    epilog="Example: gavotte transfers submit model.bin --from vm0 --to vm1,vm2 -o '/tmp/model-{host}'",
)
@declared
def submit(
    file: Annotated[
        Path,
        typer.Argument(
            help="Matrix of bytes: source,target,bytes. With --from: the file to broadcast, as a path on that host.",
            metavar="BYTES.csv|FILE",
        ),
    ],
    copying: CopyOptions,
    entered: EntryOptions,
    timed: DeadlineOptions,
    socket: Socket = None,
    as_json: Json = False,
) -> None:
    """Queue a matrix of bytes, or a broadcast, and print the number of its transfer."""
    from gavotte.formats.parts.byte_matrix import read_byte_matrix
    from gavotte.formats.parts.transfer import Copies
    from gavotte.transfer import Client

    about = {**asdict(entered), "name": entered.name or file.stem, "user": _user()}
    if copying.source is None:
        if copying.to or copying.output or copying.mechanism:
            raise typer.BadParameter("--to, --output and --mechanism need --from, which makes the transfer a broadcast")
        flows = read_byte_matrix(file)
        with Client(socket) as client:
            entry = client.submit(flows, **about, deadline_s=timed.deadline, demote=timed.late == "demote")
    else:
        if timed.deadline is not None:
            raise typer.BadParameter("a broadcast cannot have a --deadline; submit a matrix of bytes")
        if not copying.to or not copying.output:
            raise typer.BadParameter("a broadcast needs --to and --output")
        mechanism = copying.mechanism or "auto"
        copies = Copies(str(file.absolute()), copying.source, copy_path(copying.output), mechanism)
        with Client(socket) as client:
            entry = client.submit_broadcast(copies, separated(copying.to), **about)
    if as_json:
        emit_json(entry)
        return
    typer.echo(entry["id"])
    if timed.deadline is not None and not entry["guaranteed"]:
        warn([f"transfer {entry['id']} has no promise: its deadline needs more than earlier promises leave"])


@transfers.command(epilog="Example: gavotte transfers join 3 vm7 -o /tmp/model")
@declared
def join(
    number: Number,
    host: Annotated[str, typer.Argument(help="The additional receiver.", metavar="HOST")],
    output: str | None = option("Path of its copy. By default the same as for the others.", "PATH", "-o", "--output"),
    socket: Socket = None,
    as_json: Json = False,
) -> None:
    """Add a receiver to a broadcast that has not finished."""
    from gavotte.transfer import Client

    with Client(socket) as client:
        _show(client.join(number, host, "" if output is None else copy_path(output)), as_json)


@transfers.command("list", epilog="Example: gavotte transfers list --unfinished")
@declared
def list_(
    unfinished: bool = option("Show only transfers that have not finished.", default=False),
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
    columns = ["id", "kind", "name", "user", "state", "class", "moved", "of", "after s", "deadline s", "error"]
    emit_table(columns, [_row(entry) for entry in entries], words=("kind", "name", "user", "state", "error"))
    note(f"policy {policy}")


@transfers.command(epilog="Example: gavotte transfers cancel 3")
def cancel(number: Number, socket: Socket = None, as_json: Json = False) -> None:
    """Cancel a transfer that has not finished."""
    from gavotte.transfer import Client

    with Client(socket) as client:
        _show(client.cancel(number), as_json)


@transfers.command(epilog="Example: gavotte transfers wait 3 --timeout 600")
@declared
def wait(
    number: Number,
    timeout: float | None = option("Give up after this many seconds.", "SECONDS", min=0),
    socket: Socket = None,
    as_json: Json = False,
) -> None:
    """Wait until a transfer has finished. Exits with 0 if all its bytes have moved, else 1."""
    from gavotte.errors import GavotteError
    from gavotte.transfer import Client

    with Client(socket) as client, progress("waiting"):
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
    how = ", encrypted" if entry["encrypted"] else ""
    note(f"transfer {entry['id']} ({entry['name']}): {entry['state']}{after}, {moved} moved{how}")


def _row(entry: dict[str, Any]) -> list[str]:
    after = "" if entry["completion_s"] is None else f"{entry['completion_s']:.2f}"
    return [
        str(entry["id"]),
        f"{entry['kind']}, encrypted" if entry["encrypted"] else entry["kind"],
        entry["name"],
        entry["user"],
        entry["state"],
        str(entry["class"]),
        format_bytes(entry["moved_bytes"]),
        format_bytes(entry["bytes"]),
        after,
        _deadline(entry),
        entry["error"],
    ]


def _deadline(entry: dict[str, Any]) -> str:
    """Return the deadline, and whether it was promised or missed."""
    if entry["deadline_s"] is None:
        return ""
    words = ["" if entry["guaranteed"] else " not promised", " missed" if entry["in_time"] is False else ""]
    return f"{entry['deadline_s']:g}" + ",".join(word for word in words if word)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())
