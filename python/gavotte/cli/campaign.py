"""`gavotte campaign`: plan, run and compare repeatable measurement studies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Budget, Json, PricePerGb
from gavotte.cli.output import emit_json, emit_line, emit_table, note, printable, warn
from gavotte.cli.progress import progress
from gavotte.cli.verdicts import STATUS, leave, share
from gavotte.cli.writing import to_write
from gavotte.formats.parts.counting import counted

if TYPE_CHECKING:
    from gavotte.campaign import Archive, CampaignPlan, Comparison, Done, RemainingSamples
    from gavotte.formats.campaign import Campaign
    from gavotte.formats.record import Sample

campaign = typer.Typer(help="Plan, run, report and compare measurement campaigns.", no_args_is_help=True)

CampaignFile = Annotated[Path, typer.Argument(help="A Campaign.", metavar="C.campaign.toml")]


@campaign.command("plan", epilog="Example: gavotte campaign plan study.campaign.toml --json")
def plan_(file: CampaignFile, as_json: Json = False) -> None:
    """Print the samples of a campaign in order, and their cost. Measures nothing."""
    from gavotte.formats.campaign import read_campaign

    planned = _planned(read_campaign(file))
    if as_json:
        emit_json(planned.as_dict())
        return
    rows = [
        [
            each.sample,
            each.source,
            each.target,
            str(each.connections),
            each.engine,
            "if needed" if each.optional else "",
        ]
        for each in planned.samples
    ]
    emit_table(
        ["sample", "source", "target", "connections", "engine", "taken"],
        rows,
        words=("source", "target", "engine", "taken"),
    )
    _tell_cost(planned)


JsonLike = Annotated[
    str | None,
    typer.Option("--json-like", help="Print each sample as this tool prints its own result: iperf3.", metavar="iperf3"),
]


@dataclass(frozen=True)
class RoundOptions:
    """How often the campaign is taken, and whether it is at all."""

    resume: bool = option("Continue a file that already holds samples of this campaign.", default=False)
    dry_run: bool = option("Check the file of samples, print the cost and send nothing.", default=False)
    every: float = option(
        "Take the campaign again at this interval, each round to a file of its own: {time} in its name is the start.",
        "SECONDS",
        default=0.0,
        min=0,
    )
    count: int | None = option("Number of rounds; without it, --every continues until you stop it.", "N", min=1)


@dataclass(frozen=True)
class ArchiveOptions:
    """Where samples go in addition to their file."""

    prometheus: str | None = option("Send the samples to this address by Prometheus remote write.", "URL")
    opensearch: str | None = option("Send the samples to the OpenSearch at this address.", "URL")
    index: str = option("Index of the samples in OpenSearch.", "NAME", default="gavotte-campaign")


@dataclass(frozen=True)
class LimitOptions:
    """What the campaign may cost."""

    budget: Budget = None
    price_per_gb: PricePerGb = 0.0


@campaign.command(epilog="Example: gavotte campaign run study.campaign.toml -o study.jsonl --resume")
@declared
def run(
    file: CampaignFile,
    output: Annotated[Path, to_write("Append a Record for each sample to this file.", "R.jsonl", updates=True)],
    when: RoundOptions,
    where: ArchiveOptions,
    cost: LimitOptions,
    json_like: JsonLike = None,
    as_json: Json = False,
) -> None:
    """Take the samples of a campaign. Continue a killed run with --resume."""
    import time

    from gavotte.campaign import archive, check_rounds, remaining, round_path, rounds
    from gavotte.errors import GavotteError
    from gavotte.formats.campaign import read_campaign

    shape = _shape(json_like, as_json=as_json)
    asked = read_campaign(file)
    planned = _planned(asked)
    bound_s = _check_cost(planned, cost)
    check_rounds(output, every_s=when.every, resume=when.resume, count=when.count)
    to = _archive(where)
    _tell_cost(planned)
    if when.dry_run:
        left = remaining(planned, round_path(output, time.time()), resume=when.resume)
        _tell_remaining(left, output)
        if as_json:
            emit_json({key: value for key, value in planned.as_dict().items() if key != "samples"} | left.as_dict())
        return
    for number in rounds(when.every, when.count or (0 if when.every else 1)):
        path = round_path(output, time.time())
        try:
            done, samples = _take(file, planned, path, resume=when.resume, bound_s=bound_s)
            if as_json:
                emit_json(done.as_dict() | ({"records": str(path)} if when.every else {}))
            if shape is not None:
                for sample in samples:
                    emit_line(shape(sample))
            archive(samples, to)
            if done.failed:
                name, reason = next(iter(done.failed.items()))
                raise GavotteError(
                    f"{counted(len(done.failed), 'sample')} failed; {name}: {reason}",
                    hint="fix the cause, then run it again with --resume",
                )
        except GavotteError as error:
            # The next round may succeed.
            if not when.every or (when.count is not None and number + 1 >= when.count):
                raise
            warn([f"round {number + 1}: {error}"])


def _take(
    file: Path, planned: CampaignPlan, path: Path, *, resume: bool, bound_s: float | None
) -> tuple[Done, list[Sample]]:
    """Take a campaign once, and return the result and the samples that this run took."""
    from gavotte import hosts, lab
    from gavotte.campaign import run as take
    from gavotte.formats.record import read_samples

    before = {sample.sample for sample in read_samples(path)} if resume and path.exists() else set()
    with progress("measuring", "samples") as bar:
        done = take(
            planned,
            path,
            lambda topology: lab.session(topology, source=str(file), seed=planned.campaign.seed),
            make_keys=lambda folder, name, place: hosts.keys(folder, [hosts.Bearer(name, (place,))]),
            resume=resume,
            max_seconds=bound_s,
            progress=bar,
            report=note,
        )
    if done.cut_bytes:
        note(f"removed an incomplete line of {done.cut_bytes} bytes from {path}")
    note(
        f"{counted(done.taken, 'sample')} taken, {done.skipped} already present, {done.needless} not needed, "
        f"{len(done.failed)} failed; {done.seconds:.0f} s"
    )
    return done, [sample for sample in read_samples(path) if sample.sample not in before]


def _check_cost(planned: CampaignPlan, cost: LimitOptions) -> float | None:
    """Check a plan against all limits, and return the time limit in seconds; None = no limit."""
    from gavotte.campaign import check_budget
    from gavotte.cli.budget import read_limits
    from gavotte.errors import GavotteError

    limits, own = read_limits(list(cost.budget or ()), cost.price_per_gb), planned.campaign.budget
    check_budget(planned, seconds=limits.seconds, size_bytes=limits.bytes)
    check_budget(planned, seconds=own.seconds, size_bytes=own.bytes)
    price = planned.most_bytes / 1e9 * cost.price_per_gb
    if limits.money is not None and price > limits.money:
        raise GavotteError(f"the campaign costs up to {price:g}, but its budget is {limits.money:g}")
    return min((each for each in (limits.seconds, own.seconds) if each is not None), default=None)


def _shape(json_like: str | None, *, as_json: bool) -> Callable[[Sample], dict[str, Any]] | None:
    from gavotte.campaign import like_iperf3

    if json_like is None:
        return None
    if as_json:
        raise typer.BadParameter("use one of --json and --json-like")
    if json_like != "iperf3":
        raise typer.BadParameter(f"--json-like: `{json_like}` is not known; use iperf3")
    return like_iperf3


def _archive(where: ArchiveOptions) -> Archive:
    from gavotte.campaign import Archive

    return Archive(prometheus=where.prometheus, opensearch=where.opensearch, index=where.index)


def _tell_remaining(left: RemainingSamples, output: Path) -> None:
    from gavotte.formats.parts.rates import format_bytes

    if left.present or left.cut_bytes:
        torn = f", and an incomplete line of {left.cut_bytes} bytes that a run removes" if left.cut_bytes else ""
        more = f" and up to {left.optional} more" if left.optional else ""
        note(
            f"{output} holds {counted(left.present, 'sample')}{torn}; {left.samples}{more} to take, "
            f"about {left.seconds:.0f} s and {format_bytes(left.bytes)}"
        )


def _planned(asked: Campaign) -> CampaignPlan:
    from gavotte.campaign import plan
    from gavotte.campaign.drivers.lab import topology_rate_bps
    from gavotte.campaign.spelling import spelled_topology
    from gavotte.formats.topology import read_topology

    if asked.driver.topology is None:
        return plan(asked)
    topology = read_topology(asked.driver.topology)
    known = spelled_topology(topology, asked.endpoints)
    return plan(asked, topology=topology, rate_bps=lambda a, b: topology_rate_bps(known, asked.driver.tenant, a, b))


def _tell_cost(planned: CampaignPlan) -> None:
    from gavotte.formats.parts.rates import format_bytes

    optional = sum(each.optional for each in planned.samples)
    more = (
        f"; up to {planned.most_seconds:.0f} s and {format_bytes(planned.most_bytes)} with {optional} more"
        if optional
        else ""
    )
    note(
        f"{counted(len(planned.samples) - optional, 'sample')}, about {planned.seconds:.0f} s and "
        f"{format_bytes(planned.bytes)}{more}; seed {planned.campaign.seed}"
    )


RecordsFile = Annotated[Path, typer.Argument(help="Records of a campaign.", metavar="R.jsonl")]
Metric = Annotated[
    str,
    typer.Option(
        "--metric", help="Metric to compare: capacity_bps, or a name in `metrics` of the Records.", metavar="NAME"
    ),
]
Margin = Annotated[
    float,
    typer.Option(
        "--margin",
        help="Largest difference that does not matter, relative to A. By default 5%.",
        parser=share,
        show_default=False,
        metavar="PERCENT",
    ),
]


@campaign.command(epilog="Example: gavotte campaign report study.jsonl -o study.html")
def report(
    records: RecordsFile,
    output: Annotated[
        Path,
        to_write("Write the page to this file: HTML, or Markdown for *.md.", "REPORT.html"),
    ],
    other: Annotated[
        Path | None, typer.Argument(help="Records of another campaign to compare with.", metavar="OTHER.jsonl")
    ] = None,
    metric: Metric = "capacity_bps",
    margin: Margin = 0.05,
    as_json: Json = False,
) -> None:
    """Show a campaign's tables, figures and unclean conditions, and optionally compare it with another one."""
    from gavotte.campaign import compare as judge
    from gavotte.campaign import report as draw
    from gavotte.campaign.conditions import unclean
    from gavotte.formats.record import read_samples

    samples = read_samples(records)
    others = [] if other is None else read_samples(other)
    compared = None if other is None else judge(samples, others, metric=metric, margin=margin)
    written = draw(output, samples, others, comparison=compared)
    warnings = unclean(samples) + unclean(others)
    warn(f"measured under unclean conditions: {printable(warning)}" for warning in warnings)
    if as_json:
        verdict = {} if compared is None else {"verdict": compared.verdict}
        emit_json({"report": [str(path) for path in written], "samples": len(samples), "warnings": warnings, **verdict})
    note(f"wrote {', '.join(map(str, written))}")


@campaign.command(epilog="Example: gavotte campaign compare before.jsonl after.jsonl")
@declared
def compare(
    first: Annotated[Path, typer.Argument(help="Records of a campaign.", metavar="A.jsonl")],
    second: Annotated[Path, typer.Argument(help="Records of another one.", metavar="B.jsonl")],
    metric: Metric = "capacity_bps",
    margin: Margin = 0.05,
    significance: float = option(
        "Probability of a false alarm over all scenarios together.", "SHARE", default=0.05, min=1e-9, max=0.5
    ),
    as_json: Json = False,
) -> None:
    """Test whether two campaigns found the same values. Exits with 0 if alike, 3 if different, 4 if it cannot tell."""
    from gavotte.campaign import compare as judge
    from gavotte.campaign.reporting import DIFFERENCE_HEADINGS, difference_rows
    from gavotte.formats.record import read_samples

    comparison = judge(
        read_samples(first), read_samples(second), metric=metric, margin=margin, significance=significance
    )
    if as_json:
        emit_json(comparison.as_dict())
    else:
        words = ("source", "target", "flavour", "samples", "95 % interval", "verdict")
        rows = [[printable(cell) for cell in row] for row in difference_rows(comparison)]
        emit_table(DIFFERENCE_HEADINGS, rows, words=words)
    warn(comparison.warnings)
    note(_sentence(comparison))
    leave(comparison.verdict)


def _sentence(comparison: Comparison) -> str:
    """Return the verdict on all cells, and what a verdict on the others needs."""
    count = dict.fromkeys(STATUS, 0)
    for cell in comparison.cells:
        count[cell.verdict] += 1
    total, within = counted(len(comparison.cells), "scenario"), f"{100 * comparison.margin:g} %"
    if comparison.verdict == "alike":
        return f"alike: {total}, each within {within}"
    if comparison.verdict == "different":
        rest = f"; {count['cannot tell']} undecided" if count["cannot tell"] else ""
        return f"different: {count['different']} of {total} by more than {within}, or only in one{rest}"
    open_ = [cell for cell in comparison.cells if cell.verdict == "cannot tell"]
    seen = [cell.detectable for cell in open_ if cell.detectable is not None]
    needs = [cell.repetitions for cell in open_ if cell.repetitions is not None]
    least = f"; a difference of {100 * max(seen):.0f} % could have been seen" if seen else ""
    if len(needs) == len(open_):
        remedy = f"; about {max(needs)} repetitions would decide"
    else:
        remedy = "; take two or more repetitions" if not seen else "; use more repetitions, or a larger --margin"
    return f"cannot tell: {len(open_)} of {total} with a margin of {within}{least}{remedy}"


@campaign.command(epilog="Example: gavotte campaign export study.jsonl -o study.parquet")
@declared
def export(
    records: RecordsFile,
    output: Annotated[Path, to_write("Write the table or the lines to this file.", "R.parquet")],
    json_like: str | None = option(
        "Instead of a table, a line of JSON for each sample, as this tool has it.", "iperf3|opensearch"
    ),
    index: str = option("Index of the samples in OpenSearch.", "NAME", default="gavotte-campaign"),
    as_json: Json = False,
) -> None:
    """Write Records as a Parquet table with one row for each value, or in the shape of another tool's JSON."""
    import json

    from gavotte.campaign import like_iperf3, like_opensearch, write_parquet
    from gavotte.formats.files.reading import write_text
    from gavotte.formats.record import read_samples

    samples = read_samples(records)
    if json_like is None:
        rows = write_parquet(output, samples)
        wrote = {"table": str(output), "rows": rows}
    else:
        if json_like == "iperf3":
            text = "".join(json.dumps(like_iperf3(sample), allow_nan=False) + "\n" for sample in samples)
        elif json_like == "opensearch":
            text = like_opensearch(samples, index)
        else:
            raise typer.BadParameter(f"--json-like: `{json_like}` is not known; use iperf3 or opensearch")
        write_text(output, text)
        rows = text.count("\n")
        wrote = {"lines": str(output), "rows": rows}
    if as_json:
        emit_json(wrote)
    note(f"wrote {rows} rows to {output}" if json_like is None else f"wrote {counted(rows, 'line')} to {output}")


@campaign.command(epilog="Example: gavotte campaign archive study.jsonl --prometheus http://tsdb:9090/api/v1/write")
@declared
def archive(
    records: Annotated[list[Path], typer.Argument(help="Records of campaigns.", metavar="R.jsonl...")],
    where: ArchiveOptions,
    as_json: Json = False,
) -> None:
    """Send Records to Prometheus or OpenSearch. Send each file once: Prometheus refuses samples that it has."""
    from gavotte.campaign import archive as send
    from gavotte.formats.record import read_samples

    to = _archive(where)
    if not to.places:
        raise typer.BadParameter("name an archive with --prometheus or --opensearch")
    samples = [sample for path in records for sample in read_samples(path)]
    send(samples, to)
    if as_json:
        emit_json({"samples": len(samples), "archives": to.places})
    note(f"sent {counted(len(samples), 'sample')} to {', '.join(to.places)}")


@campaign.command("import", epilog="Example: gavotte campaign import output/paper/*/*.json -o osmef.jsonl")
@declared
def import_(
    files: Annotated[list[Path], typer.Argument(help="Result files that OSMeF wrote.", metavar="RESULT.json...")],
    output: Annotated[Path, to_write("Write a Record for each to this file.", "R.jsonl")],
    name: str = option("The campaign's name.", default="osmef"),
    as_json: Json = False,
) -> None:
    """Read OSMeF's published result files as Records."""
    from gavotte.campaign import read_osmef, write_samples

    samples = read_osmef(files, name)
    write_samples(output, samples)
    if as_json:
        emit_json({"records": str(output), "samples": len(samples)})
    note(f"wrote {counted(len(samples), 'sample')} to {output}")
