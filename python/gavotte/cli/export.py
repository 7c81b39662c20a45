"""`gavotte export`: write a Placement in the format of a launcher, or a Network or a job in that of a scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gavotte.cli.declared import REQUIRED, declared, option
from gavotte.cli.networks import with_inventory_at
from gavotte.cli.options import Json
from gavotte.cli.output import emit_json, note, warn
from gavotte.cli.writing import to_write
from gavotte.errors import GavotteError


@dataclass(frozen=True)
class SchedulerOptions:
    """What only the formats of Diktyo and of jobs have."""

    hosts: Path | None = option(
        "Inventory with labels and resources of the hosts, which a measured Network lacks. Diktyo's formats read zones "
        "and regions, the formats of jobs read resources.",
        "H.hosts.toml",
    )
    together: str | None = option(
        "How firmly the scheduler keeps the job together. By default required, which Volcano calls hard."
    )
    seconds: float | None = option(
        "With diktyo-appgroup, ask for the bandwidth that the job's transfers need to finish in this time.", "SECONDS"
    )


@declared
def export(
    source: Annotated[Path, typer.Argument(help="A *.placement.json, *.network.json or *.app.toml.", metavar="FILE")],
    *,
    form: str = option(
        "Format to write. Those up to csv are for a Placement, those up to diktyo-zones for a Network; ray and "
        "hadoop-rack are for both. kueue-job, volcano-job and kubernetes-podgroup are for a Placement or an App, "
        "diktyo-appgroup for an App. openmpi is a rankfile, and openmpi-seq is for more ranks than cores.",
        None,
        "--format",
        default=REQUIRED,
    ),
    app: str | None = option("Export only this application of a Placement. By default all of them, as one job."),
    network: Path | None = option(
        "Warn if a host of a Placement gets more ranks than it has cores in this Network. kueue-job, "
        "volcano-job and kubernetes-podgroup need it: they name its lowest tier with room for the job.",
        "N.network.json",
    ),
    older_labels: bool = option(
        "Use the labels of Topograph 0.3 to 0.5: network.topology.nvidia.com/leaf, spine and core.", default=False
    ),
    scheduler: SchedulerOptions,
    output: Annotated[Path | None, to_write("Write to this file instead of stdout.", "FILE")] = None,
    as_json: Json = False,
) -> None:
    """Write a Placement for a launcher or framework, or a Network as a scheduler's topology.

    Rank i is the i-th task of the Apps. Switches are the groups of the Network.
    The last four formats write what a job asks of Kueue, Volcano, Kubernetes' own scheduler or Diktyo.
    """
    from gavotte.export import FORMATS, JOB_FORMATS, TOPOLOGY_FORMATS, check_format, current_name
    from gavotte.formats.files.kinds import kind_at
    from gavotte.formats.files.reading import write_text

    form = current_name(form)
    given = {
        "--app": app,
        "--network": network,
        "--hosts": scheduler.hosts,
        "--together": scheduler.together,
        "--seconds": scheduler.seconds,
    }
    # The kind of the file decides about a format that both nouns have.
    if form in TOPOLOGY_FORMATS and not (form in FORMATS and kind_at(source) == "placement"):
        for name in ("--app", "--network"):
            if given[name] is not None:
                raise GavotteError(f"{name} is for a Placement, and {form} writes a Network", hint=f"leave out {name}")
        _refuse(form, given, ("--hosts",) if TOPOLOGY_FORMATS[form].zoned else ())
        text, facts = _topology(source, form, older_labels, scheduler.hosts, output)
    elif form in JOB_FORMATS:
        tiered = JOB_FORMATS[form].tiered
        _refuse(form, given, ("--app", "--network", "--hosts", "--together") if tiered else ("--seconds",))
        text, facts = _job(source, form, _Asked(app, network, older_labels, scheduler), output)
    else:
        check_format(form, FORMATS, "a Placement")
        if older_labels:
            raise GavotteError(f"{form} has no labels", hint="leave out --older-labels")
        _refuse(form, given, ("--app", "--network"))
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


@dataclass(frozen=True)
class _Asked:
    """Options of a job's format."""

    app: str | None
    network: Path | None
    older_labels: bool
    scheduler: SchedulerOptions


def _refuse(form: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    """Refuse an option that a format does not have."""
    for name, value in given.items():
        if value is not None and name not in known:
            raise GavotteError(f"{form} has no {name}", hint=f"leave out {name}")


@contextmanager
def _naming(source: Path) -> Iterator[None]:
    """Name the file in an error about its content."""
    try:
        yield
    except GavotteError as error:
        raise GavotteError(f"{source}: {error.message}", hint=error.hint) from error


def _ranks(
    source: Path, form: str, app: str | None, network: Path | None, output: Path | None
) -> tuple[str, dict[str, Any]]:
    """Return a Placement's text, and what else is printed about it."""
    from gavotte.export import FORMATS, crowded, only
    from gavotte.export import export as write
    from gavotte.formats.network import read_network
    from gavotte.formats.placement import read_placement

    placed = read_placement(source)
    text = write(placed, form, app=app)
    chosen = placed if app is None else only(placed, app)
    warnings = []
    if network is not None:
        warnings = crowded(chosen, form, {host.name: host.cpus for host in read_network(network).hosts})
    count = len(chosen.assignment)
    known, file = FORMATS[form], output or "FILE"
    steps = {"usage": known.usage.format(file=file, count=count)}
    if known.undo:
        steps["undo"] = known.undo.format(file=file)
    return text, {"ranks": count} | steps | {"warnings": warnings}


def _topology(
    source: Path, form: str, older_labels: bool, hosts: Path | None, output: Path | None
) -> tuple[str, dict[str, Any]]:
    """Return a Network's text, and what else is printed about it."""
    from gavotte.export import TOPOLOGY_FORMATS, doubts, export_network
    from gavotte.formats.network import read_network

    network = with_inventory_at(read_network(source), hosts)
    if older_labels and not TOPOLOGY_FORMATS[form].labelled:
        raise GavotteError(f"{form} has no labels", hint="leave out --older-labels")
    with _naming(source):
        text = export_network(network, form, older_labels=older_labels)
    known = TOPOLOGY_FORMATS[form]
    steps = {"usage": known.usage.format(file=output or "FILE"), "undo": known.undo.format(file=output or "FILE")}
    return text, {"hosts": len(network.hosts)} | steps | {"warnings": doubts(network, form)}


def _job(source: Path, form: str, asked: _Asked, output: Path | None) -> tuple[str, dict[str, Any]]:
    """Return what a job needs, as text, and what else is printed about it."""
    from typing import get_args

    from gavotte.export import JOB_FORMATS, JobQuestion, Together, export_job, job_doubts, job_name, only
    from gavotte.formats.app import App, read_app
    from gavotte.formats.files.kinds import kind_at
    from gavotte.formats.network import read_network
    from gavotte.formats.placement import Placement, read_placement

    known = JOB_FORMATS[form]
    seconds = asked.scheduler.seconds
    if seconds is not None and not 1e-3 <= seconds <= 1e9:
        raise GavotteError(f"--seconds {seconds:g} is no time of a job", hint="use 0.001 to 1000000000")
    together: Any = asked.scheduler.together or "required"
    if together not in get_args(Together):
        raise GavotteError(f"--together has no value `{together}`", hint=f"use {', '.join(get_args(Together))}")
    if asked.older_labels and not known.labelled:
        raise GavotteError(f"{form} has no labels", hint="leave out --older-labels")
    if known.tiered and asked.network is None:
        raise GavotteError(f"{form} needs the tiers of a Network", hint="give it by --network")
    placed = known.tiered and kind_at(source) == "placement"
    job: App | Placement = read_placement(source) if placed else read_app(source)
    if asked.app is not None:
        if not isinstance(job, Placement):
            raise GavotteError(f"--app is for a Placement, and {source} is an App", hint="leave out --app")
        job = only(job, asked.app)
    network = None
    if asked.network is not None:
        network = with_inventory_at(read_network(asked.network), asked.scheduler.hosts)
    question = JobQuestion(job, network, together, asked.older_labels, seconds)
    with _naming(source):
        text = export_job(question, form)
    steps = {
        key: line.format(file=output or "FILE", name=job_name(question, form))
        for key, line in (("usage", known.usage), ("undo", known.undo))
    }
    tasks = len(job.task) if isinstance(job, App) else len(job.assignment)
    return text, {"tasks": tasks} | steps | {"warnings": job_doubts(question, form)}
