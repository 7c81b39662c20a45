"""`gavotte lab`: an emulated cloud of network namespaces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.options import Json
from gavotte.cli.output import emit_json, emit_table, note, warn
from gavotte.cli.progress import progress
from gavotte.formats.parts.counting import counted

if TYPE_CHECKING:
    from gavotte.lab import LabStatus

lab = typer.Typer(
    help="Emulate a cloud on this machine, out of network namespaces, from a *.topology.toml.",
    no_args_is_help=True,
)

TopologyFile = Annotated[Path, typer.Argument(help="The Topology to build.", metavar="TOPOLOGY")]
PASS_THROUGH = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@lab.command(epilog="Example: gavotte lab up cloud.topology.toml")
def up(topology: TopologyFile, as_json: Json = False) -> None:
    """Build the lab and start an agent on each host. It stays up until `gavotte lab down`."""
    from gavotte import lab as room
    from gavotte.formats.topology import read_topology

    with progress("starting the lab"):
        state = room.up(read_topology(topology), source=str(topology.absolute()))
    _show(state, as_json)


@lab.command(epilog="Example: gavotte lab down")
def down(as_json: Json = False) -> None:
    """Remove the lab and everything that runs in it."""
    from gavotte import lab as room

    was_up = room.down()
    if as_json:
        emit_json({"was_up": was_up})
    else:
        note("lab removed" if was_up else "no lab was up")


@lab.command(epilog="Example: gavotte lab status --json")
def status(as_json: Json = False) -> int:
    """Say whether a lab is up and whether its agents answer. Exits with 1 if there is no lab."""
    from gavotte import lab as room

    state = room.status()
    _show(state, as_json)
    return 0 if state.up else 1


@lab.command("exec", epilog="Example: gavotte lab exec vm0 -- ping -c 3 vm1", context_settings=PASS_THROUGH)
def execute(
    host: Annotated[str, typer.Argument(help="A host or switch of the lab.", metavar="HOST")],
    command: Annotated[list[str], typer.Argument(help="The command, after `--`.", metavar="-- CMD...")],
) -> None:
    """Run a command on a host of the lab. Exits with the command's status."""
    from gavotte import lab as room

    raise typer.Exit(room.execute(host, _bare(command)))


@lab.command(
    "run",
    epilog="Example: gavotte lab run cloud.topology.toml -- gavotte measure --hosts lab -o cloud.npz",
    context_settings=PASS_THROUGH,
)
def run(
    topology: TopologyFile,
    command: Annotated[list[str], typer.Argument(help="The command, after `--`.", metavar="-- CMD...")],
) -> int:
    """Build a lab, run a command on this machine with `--hosts lab` set to it, and remove the lab."""
    from gavotte import lab as room
    from gavotte.formats.topology import read_topology

    command = _bare(command)
    with room.session(read_topology(topology), source=str(topology.absolute())) as cloud:
        child = cloud.beside(command)
        try:
            code = child.wait()
        except BaseException:
            child.terminate()
            child.wait()  # ends within seconds: see `gavotte.lab.warden`
            raise
    return code if code >= 0 else 128 - code


def _bare(command: list[str]) -> list[str]:
    """Return the command without the `--` in front, which the parser leaves after an argument."""
    from gavotte.errors import GavotteError

    bare = command[1:] if command[:1] == ["--"] else command
    if not bare:
        raise GavotteError("no command given", hint="write it after `--`")
    return bare


def _show(state: LabStatus, as_json: bool) -> None:
    if as_json:
        emit_json(state.as_dict())
        return
    if not state.up:
        note("no lab is up")
        return
    emit_table(
        ["host", "address", "agent"],
        [[host.name, host.address, "answers" if host.agent else "stopped"] for host in state.hosts],
    )
    warn(state.warnings)
    note(f"{counted(len(state.hosts), 'host')} of {state.topology}, up for {state.uptime_s:.1f} s")
