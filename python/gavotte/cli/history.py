"""`gavotte history`: keep past measurements in the store."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gavotte.cli import lists
from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json, StoreUrl, moment
from gavotte.cli.output import emit_json, emit_table, note, with_information
from gavotte.cli.stability import stability
from gavotte.cli.writing import to_write
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_rate

if TYPE_CHECKING:
    from gavotte.store import Head, KindSummary, SeriesSummary, Span, Store

history = typer.Typer(
    help="Keep snapshots and Records in a database: import, list, show, export, delete.", no_args_is_help=True
)

SHOWN_SNAPSHOTS = 10


Since = Annotated[
    float | None,
    typer.Option(
        "--since",
        help="Only from this time: Unix seconds or ISO 8601 (UTC by default).",
        parser=moment,
        metavar="TIME",
    ),
]
Until = Annotated[float | None, typer.Option("--until", help="Only before this time.", parser=moment, metavar="TIME")]
Last = Annotated[int | None, typer.Option("--last", help="Only the last N.", min=1, metavar="N")]
Form = Annotated[
    str | None,
    typer.Option("--format", help="Format of the file. By default as the file's suffix says.", metavar="FORMAT"),
]
SeriesName = Annotated[
    str, typer.Argument(help="Name of the series; `gavotte history list` shows all.", metavar="SERIES")
]


@history.command("list", epilog="Example: gavotte history list --store lab.sqlite3")
def list_(store: StoreUrl = None, as_json: Json = False) -> None:
    """List all series and all kinds of Records."""
    from gavotte.store import locate, open_store

    place = locate(store)
    series: list[SeriesSummary] = []
    kinds: list[KindSummary] = []
    # Before the first use the store has no file, and listing it creates none.
    if not place.default or Path(place.path).exists():
        with open_store(store, create=False) as opened:
            series, kinds = opened.series(), opened.kinds()
    if as_json:
        emit_json(
            {
                "store": place.shown,
                "series": [_series_document(each) for each in series],
                "records": [_kind_document(each) for each in kinds],
            }
        )
        return
    if series:
        columns = ["series", "snapshots", "hosts", "last", "answered", "median rate"]
        emit_table(columns, [_series_row(each) for each in series])
    if kinds:
        columns = ["records of", "count", "last", "metrics"]
        rows = [[each.kind, str(each.records), _date(each.last_s)] for each in kinds]
        emit_table(columns, [[*row, " ".join(each.metrics)] for row, each in zip(rows, kinds, strict=True)])
    note(f"{len(series)} series and {sum(each.records for each in kinds)} Records in {place.shown}")


@history.command(epilog="Example: gavotte history show cloud --pairs --last 10")
@declared
def show(
    series: SeriesName,
    store: StoreUrl = None,
    pairs: bool = option("Show each path: median, lowest and highest rate.", default=False),
    host: list[str] | None = option("Only paths between these hosts. May be repeated.", "HOST"),
    since: Since = None,
    until: Until = None,
    last: Last = None,
    as_json: Json = False,
) -> None:
    """Summarise a series: its snapshots, hosts, times and rates."""
    from gavotte.store import Span, open_store

    span = Span(since, until, last)
    with open_store(store, create=False) as opened:
        summary = opened.summary(series, span)
        heads = opened.heads(series, span)
        table = _pairs(opened, series, span, host) if pairs or host else None
    if as_json:
        document = _series_document(summary) | {"snapshot": [_head_document(each) for each in heads]}
        emit_json(document if table is None else document | {"pairs": table})
        return
    if table is not None:
        columns = ["source", "target", "answered", "median", "lowest", "highest", "latency", "hops"]
        shown = with_information(table, lambda pair: pair["answered"], "path", "without an answer")
        emit_table(columns, [_pair_row(each, summary.snapshots) for each in shown])
    else:
        rows = [
            [
                _date(each.time_s),
                str(each.hosts),
                _share(each.answered, each.paths),
                _rate(each.beta_median_Bps),
                _milliseconds(each.alpha_median_s),
                each.method or "-",
            ]
            for each in heads[-SHOWN_SNAPSHOTS:]
        ]
        emit_table(["snapshot", "hosts", "answered", "median rate", "median latency", "method"], rows)
        if len(heads) > SHOWN_SNAPSHOTS:
            note(f"showing the last {SHOWN_SNAPSHOTS} of {len(heads)} snapshots")
    size = f"{counted(summary.snapshots, 'snapshot')} of {counted(len(summary.hosts), 'host')}"
    note(
        f"{series}: {size}, {_date(summary.first_s)} to {_date(summary.last_s)}, "
        f"{_share(summary.answered, summary.paths)} of paths answered, "
        f"median rate {_rate(summary.beta_median_Bps)}"
    )


@history.command(
    cls=lists.command("history export"),
    epilog="Example: gavotte history export cloud -o cloud.parquet --since 2026-11-01",
)
def export(
    output: Annotated[Path, to_write("File to write. Its suffix gives the format; see --format.", "FILE")],
    series: Annotated[
        str | None,
        typer.Argument(
            help="Name of the series; for .jsonl a kind of Records, or nothing for all kinds.", metavar="[SERIES]"
        ),
    ] = None,
    store: StoreUrl = None,
    form: Form = None,
    since: Since = None,
    until: Until = None,
    last: Last = None,
    as_json: Json = False,
) -> None:
    """Write a series or Records to a file."""
    from gavotte.store import Span, export_records, export_series, file_format, open_store

    kind = file_format(output, form)
    if series is None and kind != "jsonl":
        raise typer.BadParameter("name a series: only .jsonl can hold all of the store's Records")
    span = Span(since, until, last)
    with open_store(store, create=False) as opened:
        if kind == "jsonl":
            count = export_records(opened, output, series, span=span)
        else:
            count = export_series(opened, str(series), output, form=kind, span=span)
    what = "records" if kind == "jsonl" else "snapshots"
    if as_json:
        emit_json({"output": str(output), "format": kind, what: count})
    else:
        note(f"wrote {count} {what if count != 1 else what[:-1]} to {output}")


@history.command(
    "import", cls=lists.command("history import"), epilog="Example: gavotte history import cloud.npz --series cloud"
)
@declared
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help="File to add: snapshots, or Records in .jsonl. Its suffix gives the format; see --format.",
            metavar="FILE",
        ),
    ],
    series: str | None = option("Series to add to. By default the name of the file."),
    store: StoreUrl = None,
    form: Form = None,
    skip_existing: bool = option(
        "Skip snapshots that the series already has, instead of refusing the file.", default=False
    ),
    as_json: Json = False,
) -> None:
    """Add a file to the store, all of it or nothing. Creates the series and the store if needed."""
    from gavotte.store import file_format, import_file, open_store

    kind = file_format(file, form)
    if kind == "jsonl" and series is not None:
        raise typer.BadParameter("Records do not belong to a series: leave out --series")
    with open_store(store) as opened:
        added = import_file(opened, file, series, form=kind, skip_existing=skip_existing)
    if as_json:
        emit_json(vars(added))
    elif kind == "jsonl":
        note(f"added {added.records} new Records to {added.store}")
    else:
        note(f"added {counted(added.snapshots, 'snapshot')} to {added.series} in {added.store}")


history.command(epilog="Example: gavotte history stability cloud.npz --age 5m")(stability)


@history.command(epilog="Example: gavotte history delete cloud --before 2026-01-01")
@declared
def delete(
    name: Annotated[str, typer.Argument(help="Name of the series, or with --records of the kind.")],
    records: bool = option("Delete Records of this kind instead of a series.", default=False),
    before: float | None = option("Only what is older than this time.", "TIME", parser=moment),
    store: StoreUrl = None,
    as_json: Json = False,
) -> None:
    """Delete a series or a kind of Records, or its older part."""
    from gavotte.store import open_store

    with open_store(store, create=False) as opened:
        call = opened.delete_records if records else opened.delete
        count = call(name, before_s=before)
    what = "records" if records else "snapshots"
    if as_json:
        emit_json({"name": name, what: count})
    else:
        note(f"deleted {count} {what if count != 1 else what[:-1]} of {name}")


def _pairs(opened: Store, series: str, span: Span, hosts: list[str] | None) -> list[dict[str, Any]]:
    import numpy as np

    past = opened.load(series, span, hosts=hosts)
    answered, reached = np.isfinite(past.beta_Bps), np.isfinite(past.alpha_s)
    rows: list[dict[str, Any]] = []
    for i, source in enumerate(past.hosts):
        for j, target in enumerate(past.hosts):
            if i != j:
                beta = past.beta_Bps[:, i, j][answered[:, i, j]]
                alpha = past.alpha_s[:, i, j][reached[:, i, j]]
                rows.append(
                    {
                        "source": source,
                        "target": target,
                        "answered": len(beta),
                        "rate_median_bps": 8 * float(np.median(beta)) if len(beta) else None,
                        "rate_min_bps": 8 * float(beta.min()) if len(beta) else None,
                        "rate_max_bps": 8 * float(beta.max()) if len(beta) else None,
                        "latency_median_s": float(np.median(alpha)) if len(alpha) else None,
                        "hops": int(past.hops[i, j]),
                    }
                )
    return rows


def _pair_row(pair: dict[str, Any], snapshots: int) -> list[str]:
    rates = [
        _rate(None if pair[key] is None else pair[key] / 8)
        for key in ("rate_median_bps", "rate_min_bps", "rate_max_bps")
    ]
    hops = str(pair["hops"] or "-")
    answered = f"{pair['answered']}/{snapshots}"
    return [pair["source"], pair["target"], answered, *rates, _milliseconds(pair["latency_median_s"]), hops]


def _series_document(summary: SeriesSummary) -> dict[str, Any]:
    return {
        "name": summary.name,
        "snapshots": summary.snapshots,
        "hosts": list(summary.hosts),
        "first_s": summary.first_s,
        "last_s": summary.last_s,
        "paths": summary.paths,
        "answered": summary.answered,
        "methods": list(summary.methods),
        "rate_median_bps": None if summary.beta_median_Bps is None else 8 * summary.beta_median_Bps,
        "latency_median_s": summary.alpha_median_s,
    }


def _kind_document(summary: KindSummary) -> dict[str, Any]:
    return {**vars(summary), "metrics": list(summary.metrics)}


def _head_document(head: Head) -> dict[str, Any]:
    return {
        "time_s": head.time_s,
        "method": head.method,
        "hosts": head.hosts,
        "paths": head.paths,
        "answered": head.answered,
        "rate_median_bps": None if head.beta_median_Bps is None else 8 * head.beta_median_Bps,
        "latency_median_s": head.alpha_median_s,
    }


def _series_row(summary: SeriesSummary) -> list[str]:
    return [
        summary.name,
        str(summary.snapshots),
        str(len(summary.hosts)),
        _date(summary.last_s),
        _share(summary.answered, summary.paths),
        _rate(summary.beta_median_Bps),
    ]


def _date(time_s: float) -> str:
    try:
        return datetime.fromtimestamp(time_s, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # the time is outside the range of dates
        return f"{time_s:g} s"


def _rate(rate_bytes_per_s: float | None) -> str:
    return "-" if rate_bytes_per_s is None else format_rate(8 * rate_bytes_per_s)


def _milliseconds(latency_s: float | None) -> str:
    return "-" if latency_s is None else f"{1000 * latency_s:.3g} ms"


def _share(part: int, whole: int) -> str:
    # Rounded down, so that 100 % means all.
    return f"{100 * part // whole} %" if whole else "-"
