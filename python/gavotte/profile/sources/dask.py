"""Read Dask's own records: the bytes that each worker fetched from each other worker.

    import json
    kept = ("who", "total", "start", "stop")
    log = client.run(lambda dask_worker: [{k: e[k] for k in kept} for e in dask_worker.transfer_incoming_log])
    json.dump(log, open("transfers.json", "w"))

Each entry is one message of task results: its sender, bytes, start and end. A worker keeps the last 100,000. This log
lacks scattered data, replication and nearly all of a p2p shuffle; a capture has them.

If the workers have ended, the scheduler's records allow an estimate: how long each fetch took, and each pair's speed.

    stream = client.get_task_stream()  # call it once before the work, too: it records from then on
    pairs = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.bandwidth_workers.items()))
    speeds = [[*pair, speed] for pair, speed in pairs]
    json.dump({"task_stream": stream, "bandwidth_workers": speeds}, open("stream.json", "w"), default=str)
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any

from gavotte.errors import FormatError
from gavotte.formats.files.reading import parse_json, read_text
from gavotte.profile.ends import Ends
from gavotte.profile.gathering import Request
from gavotte.profile.naming import canonical_address
from gavotte.profile.traffic import Count, Traffic

MOST_BYTES = 1 << 62
ROUGH = 3.0
"""Largest factor by which bytes estimated from a fetch's time are wrong. Dask smooths speeds over many fetches, and
adds up those of one heartbeat. In the recorded run of three workers (tests/profile/recorded/dask-stream.json) the
factor was 1.1 to 2.8."""


def read_dask(request: Request) -> Traffic:
    """Read the transfer logs of Dask workers, or a scheduler's task stream. Tasks are the workers' addresses and ports.

    Returns:
        The Traffic. Its `seen` has the numbers of `workers` and `transfers`.

    Raises:
        FormatError: when a file is no such log, or is empty.
    """
    ends = Ends(request, by_port=True)
    transfers = 0
    workers = set()
    for path in map(str, request.inputs):
        content = parse_json(read_text(path), path)
        if isinstance(content, dict) and "task_stream" in content:
            for source, target, count, stop_s in _fetches(content, path):
                workers.add(target)
                ends.add(source, target, count, stop_s)
                transfers += 1
            continue
        logs = content.get("workers", content) if isinstance(content, dict) else content
        if not isinstance(logs, dict) or not logs:
            raise FormatError(path, "", "is not a log of workers' transfers", "dump transfer_incoming_log by worker")
        for worker, log in logs.items():
            entries = log.get("transfer_incoming_log", []) if isinstance(log, dict) else log
            if not isinstance(entries, list):
                raise FormatError(path, worker, "is not a list of transfers", "dump transfer_incoming_log by worker")
            target = _end(worker, path, worker)
            workers.add(target)
            for number, entry in enumerate(entries):
                source, size, stop_s = _entry(entry, path, f"{worker}[{number}]")
                ends.add(source, target, Count.exact(size), stop_s)
                transfers += 1
    return ends.traffic({"workers": len(workers), "transfers": transfers})


def _fetches(content: dict[str, Any], path: str) -> Iterator[tuple[str, str, Count, float]]:
    """Yield each fetch of a task stream: source, target, bytes and Unix time of its end.

    The bytes are the fetch's time multiplied by the pair's speed, or by the median speed if the pair has none.
    """
    speeds = {}
    try:
        for number, (target, source, speed) in enumerate(content.get("bandwidth_workers", ())):
            where = f"bandwidth_workers[{number}]"
            # Bytes a second.
            speeds[_end(source, path, where), _end(target, path, where)] = float(speed)
        if not speeds or not all(1.0 <= speed < 1e13 for speed in speeds.values()):
            raise ValueError
    except (TypeError, ValueError):
        remedy = "dump [target, source, bytes a second] of each pair in the scheduler's bandwidth_workers"
        raise FormatError(path, "bandwidth_workers", "has no speeds", remedy) from None
    usual = statistics.median(speeds.values())
    where = "task_stream"
    try:
        for number, task in enumerate(content["task_stream"]):
            where = f"task_stream[{number}]"
            for step in task["startstops"]:
                if step["action"] != "transfer":
                    continue
                start_s, stop_s = float(step["start"]), float(step["stop"])
                if not 0 <= start_s <= stop_s < 1e11:
                    raise ValueError
                pair = _end(step["source"], path, where), _end(task["worker"], path, where)
                size = (stop_s - start_s) * speeds.get(pair, usual)
                yield *pair, Count(round(size), math.floor(size / ROUGH), math.ceil(size * ROUGH)), stop_s
    except (KeyError, TypeError, ValueError):
        remedy = "a record has `worker` and `startstops`, as client.get_task_stream() returns it"
        raise FormatError(path, where, "is not the record of a task", remedy) from None


def _entry(entry: Any, path: str, where: str) -> tuple[str, int, float]:
    try:
        size, stop_s = int(entry["total"]), float(entry["stop"])
        if not 0 <= size <= MOST_BYTES or not 0 <= stop_s < 1e11:
            raise ValueError
        who = entry["who"]
    except (KeyError, TypeError, ValueError, OverflowError):
        remedy = "an entry has `who`, `total` and `stop`"
        raise FormatError(path, where, "is not a transfer", remedy) from None
    return _end(who, path, where), size, stop_s


def _end(address: Any, path: str, where: str) -> str:
    try:
        return canonical_address(str(address).rpartition("://")[2])
    except ValueError:
        raise FormatError(
            path, where, f"`{str(address)[:60]}` is not the address of a worker", "use e.g. tcp://10.0.0.1:40321"
        ) from None
