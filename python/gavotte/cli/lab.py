"""`gavotte lab`: an emulated cloud of network namespaces."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.output import Json, emit_json, emit_table, note

if TYPE_CHECKING:
    from gavotte.lab import LabStatus

lab = typer.Typer(
    help="An emulated cloud: hosts, switches and caps from a *.topology.toml, as network namespaces.",
    no_args_is_help=True,
)

TopologyFile = Annotated[Path, typer.Argument(help="What to build.", metavar="TOPOLOGY")]
PASS_THROUGH = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@lab.command()
def up(topology: TopologyFile, as_json: Json = False) -> None:
    """Build the lab and start an agent on each host; it stays until `gavotte lab down`."""
    from gavotte import lab as room
    from gavotte.formats.topology import read_topology

    state = room.up(read_topology(topology), source=str(topology.absolute()))
    _show(state, as_json)


@lab.command()
def down(as_json: Json = False) -> None:
    """Remove the lab and all that runs in it."""
    from gavotte import lab as room

    was_up = room.down()
    if as_json:
        emit_json({"was_up": was_up})
    else:
        note("lab removed" if was_up else "no lab was up")


@lab.command()
def status(as_json: Json = False) -> None:
    """Tell whether a lab is up and what is in it."""
    from gavotte import lab as room

    _show(room.status(), as_json)


@lab.command("exec", context_settings=PASS_THROUGH)
def execute(
    host: Annotated[str, typer.Argument(help="A host or switch of the lab.")],
    command: Annotated[list[str], typer.Argument(help="What to run there.", metavar="-- CMD...")],
) -> None:
    """Run a command inside a host; its exit status is passed on."""
    from gavotte import lab as room

    raise typer.Exit(room.execute(host, _bare(command)))


@lab.command("run", context_settings=PASS_THROUGH)
def run(
    topology: TopologyFile,
    command: Annotated[list[str], typer.Argument(help="What to run beside the lab.", metavar="-- CMD...")],
) -> int:
    """Build the lab, run a command beside it (where `--hosts lab` works), remove the lab."""
    from gavotte import lab as room
    from gavotte.errors import GavotteError
    from gavotte.formats.topology import read_topology

    command = _bare(command)
    with room.session(read_topology(topology), source=str(topology.absolute())) as cloud:
        try:
            child = subprocess.Popen(command, env=cloud.environment())
        except FileNotFoundError:
            raise GavotteError(f"{command[0]}: no such command", hint="check its spelling") from None
        try:
            code = child.wait()
        except BaseException:
            child.terminate()
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            raise
    return code if code >= 0 else 128 - code


def _bare(command: list[str]) -> list[str]:
    """The command without the `--` in front, which the parser leaves where it follows an argument."""
    from gavotte.errors import GavotteError

    bare = command[1:] if command[:1] == ["--"] else command
    if not bare:
        raise GavotteError("no command was given", hint="write it behind --")
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
        [[host.name, host.address, "answers" if host.agent else "does not answer"] for host in state.hosts],
    )
    note(f"{len(state.hosts)} hosts of {state.topology}, up for {state.uptime_s:.1f} s")
