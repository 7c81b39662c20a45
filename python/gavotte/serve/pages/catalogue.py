"""Read the contents of pages from a store."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.history import History
from gavotte.formats.parts.transfer import Transfer
from gavotte.formats.record import LAUNCH, PAIRS, WALL_S, WATCH, Record
from gavotte.serve.pages.shown import (
    EventRow,
    FlowRow,
    JobRow,
    KindDetail,
    KindRow,
    MetricRow,
    NetworkDetail,
    NetworkRow,
    Pair,
    PairPoint,
    RunRow,
    SnapshotRow,
    TransferRow,
    ValuePoint,
)
from gavotte.store import Head, SeriesSummary, Span, Store

MOST_MEASUREMENTS = 1000
"""Newest measurements of a network, and of a pair, that are shown."""
MOST_LEARNT = 10
"""Newest measurements from which a Network is learnt, as `gavotte launch` does."""
MOST_VALUES = 20_000
"""Newest values of a kind that are shown."""
MOST_RUNS = 200
"""Newest runs of a job that are shown."""
MOST_LAUNCHES = 5000
"""Newest runs of all jobs that are shown: 50,000 take five seconds to read."""
MOST_EVENTS = 10_000
"""Newest events that are shown."""
OWN_PAGES = (LAUNCH, WATCH)
"""Kinds of values that have pages of their own."""


class Catalogue:
    """Networks, jobs, events, transfers and values of a store, as pages show them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def name(self) -> str:
        """Name of the store, without any password."""
        return self._store.name

    def mark(self) -> str:
        """Return a text that changes whenever the store does."""
        return self._store.mark()

    def rooms(self) -> set[str]:
        """Return the pages that have contents: `jobs`, `events`, `transfers` and `measurements`."""
        kinds = {each.kind for each in self._store.kinds()}
        rooms = {room for room, kind in (("jobs", LAUNCH), ("events", WATCH)) if kind in kinds}
        rooms |= {"measurements"} if kinds.difference(OWN_PAGES) else set()
        return rooms | ({"transfers"} if self._store.queue().all() else set())

    def networks(self) -> list[NetworkRow]:
        """Return all networks, the newest first."""
        return [_network(each) for each in sorted(self._store.series(), key=lambda each: -each.last_s)]

    def network(self, name: str) -> NetworkDetail:
        """Return one network with its newest measurements.

        Raises:
            GavotteError: when the store has none of this name.
        """
        summary = self._store.summary(name)
        heads = self._store.heads(name, Span(last=MOST_MEASUREMENTS))
        return NetworkDetail(
            **_network(summary).model_dump(),
            host_names=list(summary.hosts),
            measurements=[_snapshot(head) for head in heads],
        )

    def history(self, name: str, until_s: float | None) -> History:
        """Return the newest measurements of a network, at most `MOST_LEARNT`, until a Unix time; None = until now.

        Raises:
            GavotteError: when the store has no such measurement.
        """
        until_s = None if until_s is None else math.nextafter(until_s, math.inf)
        return self._store.load(name, Span(until_s=until_s, last=MOST_LEARNT))

    def pair(self, name: str, source: str, target: str) -> Pair:
        """Return one pair's newest measurements.

        Raises:
            GavotteError: when the store has no such network or host.
        """
        history = self._store.load(name, Span(last=MOST_MEASUREMENTS), hosts=(source, target))
        rates_bps = 8 * history.beta_Bps
        return Pair(
            network=name,
            source=history.hosts[0],
            target=history.hosts[1],
            measurements=[
                PairPoint(
                    time_s=float(history.time_s[k]),
                    rate_bps=_known(rates_bps[k, 0, 1]),
                    back_bps=_known(rates_bps[k, 1, 0]),
                    latency_s=_known(history.alpha_s[k, 0, 1]),
                )
                for k in range(history.snapshots)
            ],
        )

    def jobs(self) -> list[JobRow]:
        """Return the jobs of the newest runs, the one that ran last first."""
        runs: dict[str, list[Record]] = defaultdict(list)
        for record in self._store.records(LAUNCH, metric=WALL_S, span=Span(last=MOST_LAUNCHES)):
            runs[str(record.labels.get("job", ""))].append(record)
        return sorted((_job(key, each) for key, each in runs.items()), key=lambda job: -job.runs[-1].time_s)

    def job(self, key: str) -> JobRow:
        """Return one job.

        Raises:
            GavotteError: when the store has no run of it.
        """
        records = self._store.records(LAUNCH, metric=WALL_S, labels={"job": key}, span=Span(last=MOST_RUNS))
        if not records:
            raise GavotteError(f"no run of job `{key[:60]}` is stored")
        return _job(key, records)

    def app(self, key: str) -> App | None:
        """Return the App of a job; None = its messages were not counted."""
        stored = self._store.app(key)
        return None if stored is None else stored.app

    def transfers(self) -> list[TransferRow]:
        """Return the controller's queue, the newest first."""
        return [_transfer(each) for each in reversed(self._store.queue().all())]

    def events(self, most: int = MOST_EVENTS) -> list[EventRow]:
        """Return the events of watches, the newest first."""
        records = self._store.records(WATCH, metric=PAIRS, span=Span(last=most))
        return [_event(record) for record in reversed(records)]

    def events_kept(self) -> int:
        """Return the number of events that watches have kept."""
        return next((each.records for each in self._store.kinds() if each.kind == WATCH), 0)

    def kinds(self) -> list[KindRow]:
        """Return the kinds of measured values but those with pages of their own."""
        return [
            KindRow(
                kind=each.kind,
                records=each.records,
                metrics=list(each.metrics),
                first_s=each.first_s,
                last_s=each.last_s,
            )
            for each in self._store.kinds()
            if each.kind not in OWN_PAGES
        ]

    def kind(self, name: str) -> KindDetail:
        """Return one kind with its newest values.

        Raises:
            GavotteError: when the store has none of this kind.
        """
        row = next((each for each in self.kinds() if each.kind == name), None)
        if row is None:
            raise GavotteError(f"no values of kind `{name[:60]}` are stored")
        values: dict[str, list[ValuePoint]] = defaultdict(list)
        for record in self._store.records(name, span=Span(last=MOST_VALUES)):
            if math.isfinite(record.value):
                values[record.metric].append(ValuePoint(time_s=record.time_s, value=record.value))
        return KindDetail(
            **row.model_dump(), quantities=[_quantity(metric, values[metric]) for metric in sorted(values)]
        )


def _network(summary: SeriesSummary) -> NetworkRow:
    beta = summary.beta_median_Bps
    return NetworkRow(
        name=summary.name,
        hosts=len(summary.hosts),
        snapshots=summary.snapshots,
        first_s=summary.first_s,
        last_s=summary.last_s,
        rate_bps=None if beta is None else 8 * beta,
        latency_s=summary.alpha_median_s,
    )


def _snapshot(head: Head) -> SnapshotRow:
    return SnapshotRow(
        time_s=head.time_s,
        method=head.method,
        hosts=head.hosts,
        pairs=head.answered,
        rate_bps=None if head.beta_median_Bps is None else 8 * head.beta_median_Bps,
        latency_s=head.alpha_median_s,
    )


def _job(key: str, records: list[Record]) -> JobRow:
    last = records[-1].labels
    return JobRow(
        job=key,
        command=str(last.get("command", "")),
        ranks=_whole(last.get("ranks")),
        launcher=str(last.get("launcher", "")),
        runs=[_run(record) for record in records[-MOST_RUNS:]],
        typed=str(last.get("typed", "")),
        folder=str(last.get("folder", "")),
    )


def _run(record: Record) -> RunRow:
    labels = record.labels
    return RunRow(
        time_s=record.time_s,
        wall_s=record.value,
        predicted_s=_known(labels.get("predicted_s")),
        low_s=_known(labels.get("low_s")),
        high_s=_known(labels.get("high_s")),
        default_predicted_s=_known(labels.get("default_predicted_s")),
        status=_whole(labels.get("status")),
        placed=labels.get("placed") is True,
        order=str(labels.get("order", "")).split(","),
    )


def _transfer(transfer: Transfer) -> TransferRow:
    moved = transfer.moved or (0,) * len(transfer.flows)
    return TransferRow(
        id=transfer.id,
        kind=transfer.kind,
        name=transfer.name,
        user=transfer.user,
        state=transfer.state,
        bytes=transfer.bytes,
        moved_bytes=transfer.moved_bytes,
        submitted_s=transfer.submitted_s,
        finished_s=transfer.finished_s,
        deadline_s=transfer.deadline_s,
        in_time=transfer.in_time,
        error=transfer.error,
        flows=[
            FlowRow(source=flow.source, target=flow.target, bytes=flow.bytes, moved_bytes=sent)
            for flow, sent in zip(transfer.flows, moved, strict=True)
        ],
    )


def _event(record: Record) -> EventRow:
    labels = record.labels
    return EventRow(
        time_s=record.time_s,
        event=str(labels.get("event", "")),
        hosts=[name for name in str(labels.get("hosts", "")).split(",") if name],
        pairs=round(record.value),
        text=str(labels.get("text", "")),
        advice=str(labels.get("advice", "")),
    )


def _quantity(metric: str, values: list[ValuePoint]) -> MetricRow:
    numbers = [each.value for each in values]
    return MetricRow(metric=metric, median=median(numbers), least=min(numbers), most=max(numbers), values=values)


def _known(value: object) -> float | None:
    """Return a number that JSON can hold; None for all else."""
    number = float(value) if isinstance(value, float | int) and not isinstance(value, bool) else math.nan
    return number if math.isfinite(number) else None


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
