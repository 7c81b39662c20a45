"""`gavotte profile trace`: show the trace of an MPI program, or write it for another simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json
from gavotte.cli.output import emit_json, emit_table, note, warn
from gavotte.cli.writing import to_write
from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.files.reading import read_bytes, write_bytes, write_text
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes
from gavotte.formats.trace import CollectiveCall, Isend, MpiTrace, Send, computing_s, passes, read_trace
from gavotte.profile import TRACE_FORMATS

Inputs = Annotated[
    list[Path],
    typer.Argument(help="The *.trace files of all ranks of one run, or one file of them.", metavar="FILE..."),
]
TraceFormat = Enum("TraceFormat", {name.upper(): name for name in TRACE_FORMATS}, type=str)  # type: ignore[misc]

SHOWN = 10
"""Number of ranks that the table shows."""


@declared
def trace(
    inputs: Inputs,
    output: Annotated[Path | None, to_write("Write the trace to this file.", "FILE")] = None,
    form: TraceFormat | None = option(
        "Format of the file: goal for LogGOPSim and ATLAHS, smpi for SimGrid.", "goal|smpi", "--format"
    ),
    as_json: Json = False,
) -> None:
    """Show the sequence of calls of an MPI program's ranks, or write it for another simulator."""
    if (form is None) != (output is None):
        raise GavotteError("--format and --output belong together", hint="name both, or none to see the trace")
    read = read_trace(inputs)
    if output is not None and form is not None:
        write_text(output, "".join(f"{line}\n" for line in TRACE_FORMATS[form.value](read)))
        note(f"wrote {output}")
    document = _document(read)
    if as_json:
        emit_json(document)
    elif output is None:
        _show(read, document)
    warn(read.warnings)


def _document(read: MpiTrace) -> dict[str, object]:
    """Return what the ranks did, without the sequence."""
    kinds: Counter[str] = Counter()
    messages = sent_bytes = 0
    for rank in read.ranks:
        for each, times in passes(rank.operations):
            if isinstance(each, Send | Isend):
                messages += times
                sent_bytes += times * each.bytes
            elif isinstance(each, CollectiveCall):
                kinds[each.kind] += times
    return {
        "ranks": len(read.ranks),
        "complete": read.complete,
        "wall_s": max(rank.wall_s for rank in read.ranks),
        "computing_s": [computing_s(rank) for rank in read.ranks],
        "calls": sum(rank.calls for rank in read.ranks),
        "places": sum(1 for rank in read.ranks for _ in passes(rank.operations)),
        "messages": messages,
        "message_bytes": sent_bytes,
        "collectives": dict(kinds),
        "communicators": len(read.communicators),
    }


def _show(read: MpiTrace, document: dict[str, object]) -> None:
    rows = [
        [str(rank.rank), f"{rank.wall_s:.3g} s", f"{computing_s(rank) / rank.wall_s:.1%}" if rank.wall_s else "-"]
        for rank in read.ranks[:SHOWN]
    ]
    emit_table(["rank", "wall", "computing"], rows)
    if (left := len(read.ranks) - len(rows)) > 0:
        note(f"{counted(left, 'rank')} more: --json lists all")
    size = format_bytes(int(str(document["message_bytes"])))
    note(
        f"{counted(len(read.ranks), 'rank')}, {document['calls']} calls in {document['places']} places of the program, "
        f"{document['messages']} messages of {size}"
    )


def with_trace(app: App, inputs: Sequence[Path], output: Path) -> App:
    """Return an App that names its trace, if each file of counts has one next to it. The trace goes next to the App.

    Raises:
        FormatError: when a trace is damaged, or cannot be written.
    """
    traces = [each.with_suffix(".trace") for each in inputs if each.suffix == ".pmpi"]
    if not traces or len(traces) < len(inputs) or not all(each.is_file() for each in traces):
        return app
    path = output.with_name(output.name.removesuffix(output.suffix).removesuffix(".app") + ".trace")
    read_trace(traces)
    write_bytes(path, b"".join(read_bytes(each) for each in traces))
    note(f"wrote {path}, the sequence of calls")
    return app.model_copy(update={"trace": path.name})
