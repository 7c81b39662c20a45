"""`gavotte profile`: traffic to App."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.output import Json, emit_json, emit_table, note
from gavotte.formats.rates import format_bytes

profile = typer.Typer(help="Find out who sends how many bytes to whom.", no_args_is_help=True)


@profile.callback()
def sources() -> None:
    """Each source of traffic is a verb of its own."""


@profile.command()
def pcap(
    captures: Annotated[list[Path], typer.Argument(help="pcap or pcapng files, gzip or plain.", metavar="FILE...")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the App.", metavar="A.app.toml")] = None,
    tasks: Annotated[
        Path | None,
        typer.Option(
            "--tasks", help="Whose address is whose: lines of ADDRESS NAME, or a *.hosts.toml.", metavar="FILE"
        ),
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", help="One task's address; may be repeated.", metavar="NAME=ADDRESS")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The application's name; else the file's.")] = None,
    cpus: Annotated[float, typer.Option("--cpus", help="Cores each task needs.", min=0)] = 1.0,
    memory_bytes: Annotated[int, typer.Option("--memory-bytes", help="Memory each task needs.", min=0)] = 0,
    min_bytes: Annotated[
        int | None,
        typer.Option("--min-bytes", help="Leave out smaller transfers; default 0.1 % of the largest.", min=0),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read captures of tcpdump or Wireshark."""
    from gavotte.formats.app import write_app
    from gavotte.profile import from_pcap, parse_task, read_addresses

    addresses = (read_addresses(tasks) if tasks else {}) | dict(parse_task(each) for each in task or [])
    found = from_pcap(
        captures,
        addresses or None,
        name=name or captures[0].name.split(".")[0],
        cpus=cpus,
        memory_bytes=memory_bytes,
        min_bytes=min_bytes,
    )
    if output is not None:
        write_app(output, found.app)
    if as_json:
        emit_json({"app": found.app.model_dump(exclude_none=True), "report": found.report.to_dict()})
        return
    largest = sorted(found.app.transfer, key=lambda transfer: -transfer.bytes)[:10]
    emit_table(["from", "to", "bytes"], [[t.source, t.target, format_bytes(t.bytes)] for t in largest])
    report = found.report
    note(
        f"{len(found.app.task)} tasks, {len(found.app.transfer)} transfers, {format_bytes(found.app.total_bytes)} "
        f"from {report.packets} packets in {report.span_s:.1f} s; left out {report.dropped_pairs} pairs with "
        f"{format_bytes(report.dropped_bytes)} in all"
    )
    if report.truncated:
        note("warning: the capture ends inside a record; what came before is counted")
    if output is not None:
        note(f"wrote {output}")


@profile.command()
def mpip(
    report: Annotated[Path, typer.Argument(help="What mpiP left of a run.", metavar="FILE.mpiP")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the App.", metavar="A.app.toml")] = None,
    name: Annotated[str | None, typer.Option("--name", help="The application's name; else the file's.")] = None,
    cpus: Annotated[float, typer.Option("--cpus", help="Cores each rank needs.", min=0)] = 1.0,
    memory_bytes: Annotated[int, typer.Option("--memory-bytes", help="Memory each rank needs.", min=0)] = 0,
    min_bytes: Annotated[
        int | None,
        typer.Option("--min-bytes", help="Leave out smaller transfers; default 0.1 % of the largest.", min=0),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read the communication matrix of an mpiP report: ranks become tasks."""
    from gavotte.formats.app import write_app
    from gavotte.profile import from_mpip

    app = from_mpip(
        report, name=name or report.name.split(".")[0], cpus=cpus, memory_bytes=memory_bytes, min_bytes=min_bytes
    )
    if output is not None:
        write_app(output, app)
    if as_json:
        emit_json({"app": app.model_dump(exclude_none=True)})
        return
    largest = sorted(app.transfer, key=lambda transfer: -transfer.bytes)[:10]
    emit_table(["from", "to", "bytes"], [[t.source, t.target, format_bytes(t.bytes)] for t in largest])
    note(f"{len(app.task)} tasks, {len(app.transfer)} transfers, {format_bytes(app.total_bytes)}")
    if output is not None:
        note(f"wrote {output}")
