"""Write a Placement as a JSON or CSV table, for launchers that have no format here."""

from __future__ import annotations

import csv
import io
import json

from gavotte.formats.placement import Placement


def as_json(placement: Placement) -> str:
    """Return a Placement as JSON: `{"apps", "ranks": [{"rank", "task", "host"}], "hosts": {host: [ranks]}}`."""
    hosts: dict[str, list[int]] = {}
    for rank, host in enumerate(placement.assignment.values()):
        hosts.setdefault(host, []).append(rank)
    ranks = [{"rank": rank, "task": task, "host": host} for rank, task, host in _rows(placement)]
    return json.dumps({"apps": placement.apps, "ranks": ranks, "hosts": hosts}, indent=2, ensure_ascii=False) + "\n"


def as_csv(placement: Placement) -> str:
    """Return a Placement as CSV with the header `rank,task,host` and one row per rank."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["rank", "task", "host"])
    writer.writerows(_rows(placement))
    return text.getvalue()


def _rows(placement: Placement) -> list[tuple[int, str, str]]:
    return [(rank, task, host) for rank, (task, host) in enumerate(placement.assignment.items())]
