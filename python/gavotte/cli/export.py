"""`gavotte export`: write a Placement in the format of a launcher, or a Network in that of a scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.options import Json
from gavotte.cli.output import emit_json, note, warn
from gavotte.cli.writing import to_write
from gavotte.errors import GavotteError


@declared
def export(
    source: Annotated[Path, typer.Argument(help="A *.placement.json or *.network.json.", metavar="FILE")],
    form: str = option(
        "Format to write. Those up to csv are for a Placement, the others for a Network. openmpi is a rankfile, and "
        "openmpi-seq is for more ranks than cores.",
        None,
        "--format",
        default=REQUIRED,
    ),
    app: str | None = option("Export only this application of a Placement. By default all of them, as one job."),
    network: Path | None = option(
        "Warn if a host of a Placement gets more ranks than it has cores in this Network.", "N.network.json"
    ),
    older_labels: bool = option(
        "Use the labels of Topograph 0.3 to 0.5: network.topology.nvidia.com/leaf, spine and core.", default=False
    ),
    output: Annotated[Path | None, to_write("Write to this file instead of stdout.", "FILE")] = None,
    as_json: Json = False,
) -> None:
    """Write a Placement as a launcher's host file, or a Network as a scheduler's topology.

    Rank i is the i-th task of the Apps. Switches are the groups of the Network.
    """
    from gavotte.export import TOPOLOGY_FORMATS
    from gavotte.formats.files.reading import write_text

    if form in TOPOLOGY_FORMATS:
        for name, given in (("--app", app), ("--network", network)):
            if given is not None:
                raise GavotteError(f"{name} is for a Placement, and {form} writes a Network", hint=f"leave out {name}")
        text, facts = _topology(source, form, older_labels, output)
    else:
        if older_labels:
            raise GavotteError(f"{form} has no labels", hint="leave out --older-labels")
        text, facts = _ranks(source, form, app, network, output)
    warn(facts["warnings"])
    if output is not None:
        write_text(output, text)
    steps = [f"{key}: {facts[key]}" for key in ("usage", "undo") if key in facts]
    if as_json:
        emit_json({"format": form} | facts | ({"content": text} if output is None else {"output": str(output)}))
    elif output is None:
        typer.echo(text, nl=False)
        note("\n".join(steps))
    else:
        note("\n".join([f"wrote {output}; {steps[0]}", *steps[1:]]))


def _ranks(
    source: Path, form: str, app: str | None, network: Path | None, output: Path | None
) -> tuple[str, dict[str, Any]]:
    """Return a Placement's text, and what else is printed about it."""
    from gavotte.export import FORMATS, check_format, crowded, only
    from gavotte.export import export as write
    from gavotte.formats.network import read_network
    from gavotte.formats.placement import read_placement

    check_format(form, FORMATS, "a Placement")
    placed = read_placement(source)
    text = write(placed, form, app=app)
    chosen = placed if app is None else only(placed, app)
    warnings = []
    if network is not None:
        warnings = crowded(chosen, form, {host.name: host.cpus for host in read_network(network).hosts})
    count = len(chosen.assignment)
    usage = FORMATS[form].usage.format(file=output or "FILE", count=count)
    return text, {"ranks": count, "usage": usage, "warnings": warnings}


def _topology(source: Path, form: str, older_labels: bool, output: Path | None) -> tuple[str, dict[str, Any]]:
    """Return a Network's text, and what else is printed about it."""
    from gavotte.export import TOPOLOGY_FORMATS, doubts, export_network
    from gavotte.formats.network import read_network

    network = read_network(source)
    text = export_network(network, form, older_labels=older_labels)
    known = TOPOLOGY_FORMATS[form]
    steps = {"usage": known.usage.format(file=output or "FILE"), "undo": known.undo.format(file=output or "FILE")}
    return text, {"hosts": len(network.hosts)} | steps | {"warnings": doubts(network, form)}
