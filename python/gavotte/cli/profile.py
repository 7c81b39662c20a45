"""`gavotte profile`: make an App from traffic. Each source of traffic in the registry becomes a command."""

import inspect
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json, MaybeHosts
from gavotte.cli.output import emit_json, emit_table, note, warn
from gavotte.cli.profile_traces import trace, with_trace
from gavotte.cli.progress import progress
from gavotte.cli.verdicts import leave, share
from gavotte.cli.writing import to_write
from gavotte.formats.app import write_app
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.names import label_of
from gavotte.formats.parts.rates import format_bytes
from gavotte.profile import (
    CHANGED_SHARE,
    DAY_S,
    NOISE_SHARE,
    SOURCES,
    Profile,
    ProfileDifference,
    Request,
    Source,
    Traffic,
    app_of,
    belief,
    compare,
    merge,
    parse_task,
    phases,
    predict,
    read_profile,
    read_tasks,
    read_traffic,
    read_witness,
)

STRANGERS_SHOWN = 100
"""Most pairs in JSON whose source or target is not a task."""

AppOutput = Annotated[Path | None, to_write("Write the App to this file.", "A.app.toml")]

profile = typer.Typer(help="Find out which task sends how many bytes to which other task.", no_args_is_help=True)


@profile.callback()
def sources() -> None:
    """Each source of traffic is a verb of its own."""


@dataclass(frozen=True)
class AppOptions:
    """What the App says in addition to its traffic."""

    name: str | None = option("Name of the application. By default that of the file.")
    cpus: float = option("Cores that each task needs.", "N", default=1.0, min=0)
    memory_bytes: int = option("Memory that each task needs.", "BYTES", default=0, min=0)
    min_bytes: int | None = option("Leave out smaller transfers. By default 0.1 % of the largest.", "BYTES", min=0)


@dataclass(frozen=True)
class RequestOptions:
    """How the source reads or watches."""

    every: float | None = option("Make a series: one matrix for each interval of this length.", "SECONDS")
    listen: str | None = option("Receive the datagrams here, until Ctrl-C.", "ADDRESS:PORT")
    interface: str | None = option("Capture here by tcpdump, until Ctrl-C.", "NAME")
    for_s: float | None = option("Stop watching after this many seconds.", "SECONDS", "--for", min=0)
    hosts: MaybeHosts = None
    collectives: str = option(
        "Attribute a collective's bytes to the ranks between which the library sends them (wire), or to those that "
        "have and want them (call).",
        "wire|call",
        default="wire",
    )


def _command(key: str, source: Source) -> Callable[..., int | None]:
    kind = source.names.kind.upper()
    or_inventory = ", or a *.hosts.toml" if kind == "ADDRESS" else ""

    @declared
    def read(
        inputs: Annotated[list[Path] | None, typer.Argument(help=source.inputs, metavar="FILE...")] = None,
        *,
        output: AppOutput = None,
        tasks: Path | None = option(f"The tasks: lines of {kind} NAME{or_inventory}.", "FILE"),
        task: list[str] | None = option(f"A task and its {source.names.kind}. May be repeated.", f"NAME={kind}"),
        app: AppOptions,
        asked: RequestOptions,
        as_json: Json = False,
    ) -> None:
        named = read_tasks(tasks, source.names) if tasks else {}
        named |= dict(parse_task(each, source.names) for each in task or [])
        request = Request(
            inputs or [],
            named or None,
            asked.every,
            asked.listen,
            asked.for_s,
            _inventory(asked.hosts),
            _waiting,
            asked.interface,
            asked.collectives,
            note,
        )
        with progress("profiling", limit_s=asked.for_s):
            traffic = read_traffic(key, request)
        profiled = app_of(
            traffic,
            name=app.name or (label_of(inputs[0].name.split(".")[0]) if inputs else "") or "profile",
            cpus=app.cpus,
            memory_bytes=app.memory_bytes,
            min_bytes=app.min_bytes,
        )
        if output is not None:
            write_app(output, with_trace(profiled.app, inputs or [], output))
        warn(profiled.warnings)
        if as_json:
            emit_json({"source": key, **_document(profiled)})
            warn(profiled.traffic.warnings)
        else:
            _show(profiled)
        _tell_dropped(profiled, chosen=app.min_bytes is not None)
        if output is not None and not as_json:
            note(f"wrote {output}")

    return _taking(read, source)


def _taking(read: Callable[..., int | None], source: Source) -> Callable[..., int | None]:
    """Return the command with only the options that its source uses."""
    live = source.listens or source.watches or source.captures
    unused = {
        "every": not source.timed,
        "listen": not source.listens,
        "interface": not source.captures,
        "for_s": not live,
        "hosts": not source.watches,
        "collectives": not source.counts_calls,
    }
    signature = inspect.signature(read)
    parameters = [each for name, each in signature.parameters.items() if not unused.get(name, False)]
    if not live:
        parameters[0] = parameters[0].replace(default=inspect.Parameter.empty)
    read.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return read


def _inventory(hosts: str | None) -> Inventory | None:
    if hosts is None:
        return None
    from gavotte.agents import resolve_hosts

    return resolve_hosts(hosts)


def _waiting(where: str) -> None:
    """Wait for exports until Ctrl-C or SIGTERM; the result is what has arrived by then."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    note(f"waiting at {where}; Ctrl-C ends it")


def _document(profiled: Profile) -> dict[str, object]:
    return {
        "bytes": profiled.traffic.bytes,
        "attributed_bytes": profiled.traffic.attributed_bytes,
        "unattributed_bytes": profiled.traffic.unattributed_bytes,
        "pairs": profiled.traffic.to_records(),
        "unattributed": [
            {"source": source, "target": target, "bytes": size} for (source, target), size in _largest(profiled)
        ],
        "start_s": profiled.traffic.spans[0].start_s if profiled.traffic.spans else None,
        "end_s": profiled.traffic.spans[-1].end_s if profiled.traffic.spans else None,
        **_series(profiled.traffic),
        "app": profiled.app.model_dump(exclude_none=True),
        "report": profiled.report,
        "skipped": dict(profiled.traffic.skipped),
    }


def _tell_dropped(profiled: Profile, *, chosen: bool) -> None:
    """Report which pairs were left out, and why."""
    if not profiled.dropped_pairs:
        return
    why = "" if chosen else f", {NOISE_SHARE:.1%} of the largest"
    note(
        f"left out {counted(profiled.dropped_pairs, 'pair')} of less than {format_bytes(profiled.min_bytes)} each"
        f"{why}, {format_bytes(profiled.dropped_bytes)} in total; --min-bytes 1 keeps every pair"
    )


def _series(traffic: Traffic) -> dict[str, object]:
    if len(traffic.spans) < 2:
        return {}
    spans = [
        {"start_s": span.start_s, "end_s": span.end_s, "pairs": Traffic((), traffic.tasks, (span,)).to_records()}
        for span in traffic.spans
    ]
    return {"series": spans, "phases": [{"first": first, "end": end} for first, end in phases(traffic)]}


def _largest(profiled: Profile) -> list[tuple[tuple[str, str], int]]:
    """Return the pairs with an end that is not a task, largest first."""
    return sorted(profiled.traffic.strangers.items(), key=lambda item: (-item[1], item[0]))[:STRANGERS_SHOWN]


def _show(profiled: Profile) -> None:
    largest = sorted(profiled.app.transfer, key=lambda transfer: -transfer.bytes)[:10]
    emit_table(["from", "to", "bytes"], [[t.source, t.target, format_bytes(t.bytes)] for t in largest], words=["to"])
    seen = profiled.traffic.seen
    from_what = f" from {seen['packets']} packets in {seen['span_s']:.1f} s" if "packets" in seen else ""
    size = f"{counted(len(profiled.app.task), 'task')}, {counted(len(profiled.app.transfer), 'transfer')}"
    note(f"{size}, {format_bytes(profiled.app.total_bytes)}{from_what}")
    traffic = profiled.traffic
    note(
        f"{format_bytes(traffic.bytes)} seen: {format_bytes(traffic.attributed_bytes)} between tasks, "
        f"{format_bytes(traffic.unattributed_bytes)} of other traffic"
    )
    warn(traffic.warnings)


EXAMPLES = {
    "pcap": "capture.pcap --tasks tasks.hosts",
    "sflow": "--listen 0.0.0.0:6343 --for 60 --tasks tasks.hosts",
    "netflow": "--listen 0.0.0.0:2055 --for 60 --tasks tasks.hosts",
    "ipfix": "--listen 0.0.0.0:4739 --for 60 --tasks tasks.hosts",
    "live": "--hosts lab --for 60",
    "ompi": "job.*.prof",
    "pmpi": "job.*.pmpi",
    "spark": "eventlog",
    "dask": "transfers.json",
    "nccl": "nccl.*.log",
    "flows": "vpc.parquet --tasks tasks.hosts",
    "mpip": "program.64.1234.1.mpiP",
}
"""Source to what its example reads."""

for _key, _source in SOURCES.items():
    profile.command(
        _key, help=_source.help, epilog=f"Example: gavotte profile {_key} {EXAMPLES.get(_key, 'FILE')} -o app.app.toml"
    )(_command(_key, _source))

profile.command("trace", epilog="Example: gavotte profile trace job.*.trace --format goal -o job.goal")(trace)

Profiles = Annotated[
    list[Path], typer.Argument(help="Apps, or what `gavotte profile --json` printed.", metavar="PROFILE...")
]
Other = Annotated[Path, typer.Argument(help="An App, or what `gavotte profile --json` printed.", metavar="PROFILE")]


@profile.command(epilog="Example: gavotte profile diff monday.app.toml today.app.toml")
@declared
def diff(
    first: Other,
    second: Other,
    threshold: float = option(
        "Share of bytes that may go elsewhere before the pattern counts as different. By default 10%.",
        "PERCENT",
        "--margin",
        "--threshold",
        default=CHANGED_SHARE,
        parser=share,
        show_default=False,
    ),
    as_json: Json = False,
) -> None:
    """Test whether an application sends as before. Exits with 0 if alike, 3 if different, 4 if it cannot tell."""
    result = compare(read_profile(first), read_profile(second), threshold=threshold)
    believed = belief(read_witness(first), read_witness(second))
    if as_json:
        keys = ("source", "target", "first_share", "second_share")
        rows = [dict(zip(keys, row, strict=True)) for row in result.pairs]
        emit_json({"verdict": result.verdict, **vars(result), "believed": believed, "pairs": rows})
    else:
        rows_shown = [[source, target, f"{a:.1%}", f"{b:.1%}"] for source, target, a, b in result.pairs[:10]]
        emit_table(["from", "to", "first", "second"], rows_shown, words=["to"])
        note(_moved(result))
        if believed is not None:
            note(believed)
    leave(result.verdict)


def _moved(result: ProfileDifference) -> str:
    """Return the verdict on two profiles with its numbers."""
    exact = result.low_share == result.high_share
    interval = "" if exact else f" (the intervals allow {result.low_share:.1%} to {result.high_share:.1%})"
    text = (
        f"{result.verdict}: {result.moved_share:.1%} of the bytes moved{interval}, threshold {result.threshold:.1%}; "
        f"volume times {result.volume_ratio:.3g}"
    )
    if result.verdict != "cannot tell":
        return text
    times = f"; {result.times} times the traffic would decide, if samples cause the intervals" if result.times else ""
    return f"{text}; {result.detectable_share:.1%} could have been seen{times}"


@profile.command("merge", epilog="Example: gavotte profile merge run1.json run2.json -o job.app.toml")
@declared
def merge_runs(
    runs: Profiles,
    output: AppOutput = None,
    name: str | None = option("Name of the application."),
    as_json: Json = False,
) -> None:
    """Merge several runs of an application: the mean of each pair, its interval from the least to the most."""
    traffic = merge([read_profile(each) for each in runs])
    profiled = app_of(traffic, name=name or label_of(runs[0].name.split(".")[0]))
    if output is not None:
        write_app(output, profiled.app)
    if as_json:
        emit_json(_document(profiled))
        return
    _show(profiled)
    if output is not None:
        note(f"wrote {output}")


@profile.command("predict", epilog="Example: gavotte profile predict week.json")
@declared
def predict_next(
    series: Annotated[Path, typer.Argument(help="What `gavotte profile --every --json` printed.", metavar="SERIES")],
    day: float = option("Period after which the traffic repeats.", "SECONDS", default=DAY_S, min=0),
    as_json: Json = False,
) -> None:
    """Predict the next interval from the previous one and the same time of day, with the error on the series itself."""
    profiled = predict(read_profile(series), day_s=day)
    pairs = sorted(profiled.pairs.items(), key=lambda item: -item[1])
    if as_json:
        rows = [{"source": source, "target": target, "bytes": size} for (source, target), size in pairs]
        emit_json({"method": profiled.method, "errors": profiled.errors, "tested": profiled.tested, "pairs": rows})
        return
    emit_table(["from", "to", "bytes"], [[*pair, format_bytes(size)] for pair, size in pairs[:10]], words=["to"])
    errors = ", ".join(f"{name} {error:.1%} of {profiled.tested[name]}" for name, error in profiled.errors.items())
    note(f"by {profiled.method}; bytes sent elsewhere than predicted, tested on the series itself: {errors}")
