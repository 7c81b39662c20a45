"""Dask's own records: what each worker fetched of each other one.

    import json
    kept = ("who", "total", "start", "stop")
    log = client.run(lambda dask_worker: [{k: e[k] for k in kept} for e in dask_worker.transfer_incoming_log])
    json.dump(log, open("transfers.json", "w"))

Each entry is one message of task results: who sent it, how many bytes, from when to when. A worker keeps the last
100,000. Scattered data, replication and nearly all of a p2p shuffle go past this log: a capture sees them.
"""

from __future__ import annotations

from typing import Any

from gavotte.errors import FormatError
from gavotte.formats.reading import parse_json, read_text
from gavotte.profile.ends import Ends
from gavotte.profile.gathering import Request
from gavotte.profile.naming import canonical_address
from gavotte.profile.traffic import Count, Traffic

MOST_BYTES = 1 << 62


def read_dask(request: Request) -> Traffic:
    """Reads the transfer logs of workers. A task of the App is a worker's address and port.

    Returns:
        The Traffic. It has `seen` `workers` and `transfers`.

    Raises:
        FormatError: when it is no such log, or empty.
    """
    ends = Ends(request, by_port=True)
    transfers = 0
    workers = set()
    for path in map(str, request.inputs):
        content = parse_json(read_text(path), path)
        logs = content.get("workers", content) if isinstance(content, dict) else content
        if not isinstance(logs, dict) or not logs:
            raise FormatError(path, "", "is no log of workers' transfers", "dump transfer_incoming_log by worker")
        for worker, log in logs.items():
            entries = log.get("transfer_incoming_log", []) if isinstance(log, dict) else log
            if not isinstance(entries, list):
                raise FormatError(path, worker, "is no list of transfers", "dump transfer_incoming_log by worker")
            target = _end(worker, path, worker)
            workers.add(target)
            for number, entry in enumerate(entries):
                source, size, stop_s = _entry(entry, path, f"{worker}[{number}]")
                ends.add(source, target, Count.exact(size), stop_s)
                transfers += 1
    return ends.traffic({"workers": len(workers), "transfers": transfers})


def _entry(entry: Any, path: str, where: str) -> tuple[str, int, float]:
    try:
        size, stop_s = int(entry["total"]), float(entry["stop"])
        if not 0 <= size <= MOST_BYTES or not 0 <= stop_s < 1e11:
            raise ValueError
        who = entry["who"]
    except (KeyError, TypeError, ValueError, OverflowError):
        remedy = "an entry has `who`, `total` and `stop`"
        raise FormatError(path, where, "is no transfer", remedy) from None
    return _end(who, path, where), size, stop_s


def _end(address: Any, path: str, where: str) -> str:
    try:
        return canonical_address(str(address).rpartition("://")[2])
    except ValueError:
        raise FormatError(
            path, where, f"`{str(address)[:60]}` is no worker's address", "use e.g. tcp://10.0.0.1:40321"
        ) from None
