"""A Placement as a table, for launchers of one's own."""

from __future__ import annotations

import csv
import io
import json

from gavotte.formats.placement import Placement


def as_json(placement: Placement) -> str:
    """`{"apps", "ranks": [{"rank", "task", "host"}], "hosts": {host: [ranks]}}`."""
    hosts: dict[str, list[int]] = {}
    for rank, host in enumerate(placement.assignment.values()):
        hosts.setdefault(host, []).append(rank)
    ranks = [{"rank": rank, "task": task, "host": host} for rank, task, host in _rows(placement)]
    return json.dumps({"apps": placement.apps, "ranks": ranks, "hosts": hosts}, indent=2, ensure_ascii=False) + "\n"


def as_csv(placement: Placement) -> str:
    """`rank,task,host`, with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["rank", "task", "host"])
    writer.writerows(_rows(placement))
    return text.getvalue()


def _rows(placement: Placement) -> list[tuple[int, str, str]]:
    return [(rank, task, host) for rank, (task, host) in enumerate(placement.assignment.items())]
