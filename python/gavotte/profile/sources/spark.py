"""Read Spark's event logs: the bytes that executors fetched from each other in shuffles.

A log has the bytes that each task read from other executors, and those that it wrote for later stages. It does not
show which executor read from which. A reader's bytes are therefore split over the writers of its parent stages in
proportion to what each wrote, since hash partitions are even. The interval does not assume even partitions: no writer
gave more than it wrote, nor less than what the others cannot have given. Broadcasts and cached blocks that are fetched
are in no event log.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gavotte.errors import FormatError
from gavotte.profile.gathering import Gathering, Request
from gavotte.profile.sources.lines import lines_of
from gavotte.profile.traffic import Count, Traffic

MOST_BYTES = 1 << 62


class _Run:
    """Content of one application's event log: hosts of executors, parents of stages, bytes written and read."""

    def __init__(self) -> None:
        self.host: dict[str, str] = {}
        self.parents: dict[int, tuple[int, ...]] = {}
        self.written: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.remote: dict[tuple[int, str, int], int] = defaultdict(int)
        self.local: dict[tuple[str, int], int] = defaultdict(int)
        self.tasks = 0


def read_spark(request: Request) -> Traffic:
    """Read a Spark event log: a file, or the folder of a rolled one; plain, gzip or zstd.

    A task of the App is an executor, named `executor-ID`. Given tasks identify an executor by that name, by its ID or
    by its host.

    Returns:
        The Traffic. Its `seen` has `executors`, `tasks`, and `unsplit_bytes`, which were read from stages whose writers
        the log does not have. These bytes are unattributed.

    Raises:
        FormatError: when a file is no event log, or the log has no shuffle between executors.
    """
    run = _Run()
    events = 0
    for path in _files(request):
        for number, line in enumerate(lines_of(path), 1):
            if not line.startswith("{"):
                if line.strip():
                    raise FormatError(path, f"line {number}", "is not an event", "use a log of spark.eventLog.enabled")
                continue
            events += _event(run, line, path, number, Gathering(request).at)
    where = str(request.inputs[0])
    if not events:
        raise FormatError(where, "", "has no event of Spark", "use a log of spark.eventLog.enabled")
    gathering = Gathering(_named(request, run))
    for (executor, interval), size in run.local.items():
        gathering.add(executor, executor, Count.exact(size), interval)
    unsplit = _split(run, gathering)
    traffic = gathering.traffic(
        {"executors": len(run.host), "tasks": run.tasks, "unsplit_bytes": unsplit}, others_bytes=unsplit
    )
    if not any(source != target for source, target in traffic.counts):
        raise FormatError(where, "", "has no shuffle between two executors", "log a run that shuffles")
    return traffic


def _files(request: Request) -> Iterator[str]:
    for each in map(Path, request.inputs):
        if each.is_dir():
            rolled = sorted(each.glob("events_*"), key=lambda path: (len(path.name), path.name))
            if not rolled:
                raise FormatError(str(each), "", "has no events_* in it", "name a folder eventlog_v2_*")
            yield from map(str, rolled)
        else:
            yield str(each)


def _event(run: _Run, line: str, path: str, number: int, interval: Any) -> bool:
    try:
        event = json.loads(line)
        kind = event["Event"]
        if kind == "SparkListenerBlockManagerAdded":
            manager = event["Block Manager ID"]
            run.host[str(manager["Executor ID"])] = str(manager["Host"])
        elif kind in ("SparkListenerStageSubmitted", "SparkListenerStageCompleted"):
            stage = event["Stage Info"]
            run.parents[int(stage["Stage ID"])] = tuple(int(each) for each in stage.get("Parent IDs", ()))
        elif kind == "SparkListenerTaskEnd":
            run.tasks += 1
            task, metrics = event["Task Info"], event.get("Task Metrics") or {}
            executor, stage_id = str(task["Executor ID"]), int(event["Stage ID"])
            read = metrics.get("Shuffle Read Metrics") or {}
            remote, local = _bytes(read.get("Remote Bytes Read")), _bytes(read.get("Local Bytes Read"))
            wrote = _bytes((metrics.get("Shuffle Write Metrics") or {}).get("Shuffle Bytes Written"))
            at = interval(float(task.get("Finish Time", 0)) / 1e3)
            if wrote:
                run.written[stage_id][executor] += wrote
            if remote:
                run.remote[stage_id, executor, at] += remote
            if local:
                run.local[executor, at] += local
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise FormatError(path, f"line {number}", "is not an event of Spark", "use the log as Spark wrote it") from None
    return str(kind).startswith("SparkListener")


def _bytes(value: Any) -> int:
    size = int(value or 0)
    if not 0 <= size <= MOST_BYTES:
        raise ValueError
    return size


def _named(request: Request, run: _Run) -> Request:
    """Return the request with tasks by executor ID; given tasks may have an ID, `executor-ID` or a host instead."""
    if request.tasks is None:
        named = {each: f"executor-{each}" for each in sorted(run.host, key=lambda e: (len(e), e)) if each != "driver"}
        return replace(request, tasks=named)
    tasks = {}
    for executor, host in run.host.items():
        name = next((request.tasks[k] for k in (executor, f"executor-{executor}", host) if k in request.tasks), None)
        if name is not None:
            tasks[executor] = name
    order = list(dict.fromkeys(request.tasks.values()))
    return replace(request, tasks=dict(sorted(tasks.items(), key=lambda item: order.index(item[1]))))


def _split(run: _Run, gathering: Gathering) -> int:
    """Split the bytes that executors read over the executors that wrote them. Return the bytes without a writer."""
    unsplit = 0
    for (stage, reader, interval), size in run.remote.items():
        writers: dict[str, int] = defaultdict(int)
        for parent in run.parents.get(stage, ()):
            for writer, wrote in run.written.get(parent, {}).items():
                if writer != reader:
                    writers[writer] += wrote
        whole = sum(writers.values())
        if not whole:
            unsplit += size
            continue
        left = size
        for index, (writer, wrote) in enumerate(writers.items()):
            part = left if index == len(writers) - 1 else size * wrote // whole
            left -= part
            low = max(size - (whole - wrote), 0)
            gathering.add(writer, reader, Count(part, min(low, part), max(min(size, wrote), part)), interval)
    return unsplit
