"""Which of two profiles of one run to believe, if two sources saw it and disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavotte.formats.files.reading import parse_json, read_text
from gavotte.profile.traffic import LOSSES

OVERLAP_SHARE = 0.5
"""Share of the shorter of two spans, 0 to 1, that both must cover to have seen one run."""

EXACTNESS = {
    "pmpi": (0, "counts what the program itself passes to MPI"),
    "ompi": (0, "counts what the library itself sends"),
    "dask": (0, "is the workers' own log"),
    "spark": (1, "is the program's own log, without broadcasts"),
    "live": (1, "reads the kernel's counters"),
    "pcap": (1, "counts captured packets"),
    "mpip": (2, "leaves out collectives"),
    "flows": (3, "estimates headers"),
    "netflow": (3, "estimates headers"),
    "ipfix": (3, "estimates headers"),
    "sflow": (4, "is a sample"),
    "nccl": (5, "is a model of what the library sends"),
}
"""Rank of each source, the most exact first, and the reason. A new source needs a line; a test compares the names."""


@dataclass(frozen=True)
class Witness:
    """What a profile's file says about how it was made.

    Attributes:
        path: the file.
        source: name of the source; None if the file does not say it, as an App does not.
        span_s: Unix time of its begin and its end; None if the source has no clock.
        losses: what the source missed, one phrase each.
    """

    path: str
    source: str | None = None
    span_s: tuple[float, float] | None = None
    losses: tuple[str, ...] = ()


def read_witness(path: str | Path) -> Witness:
    """Return what a profile's file says about how it was made.

    Raises:
        FormatError: when the file cannot be read, or is no JSON.
    """
    if Path(path).suffix == ".toml":
        return Witness(str(path))
    content = parse_json(read_text(path), str(path))
    if not isinstance(content, Mapping) or content.get("source") not in EXACTNESS:
        return Witness(str(path))
    report = content.get("report")
    return Witness(str(path), content["source"], _span_s(content), tuple(_losses(report)))


def belief(first: Witness, second: Witness) -> str | None:
    """Return one line that says which of two profiles to believe; None if they are of one source, or of two runs."""
    if first.source is None or second.source is None or first.source == second.source:
        return None
    same = _is_one_run(first, second)
    if same is False:
        return None
    # A source that missed something comes last: the profile does not show whose bytes these were.
    better, worse = sorted((first, second), key=_rank)
    start = "both saw one run" if same else "if both saw one run"
    if _rank(better) == _rank(worse):
        return f"{start}: {better.source} and {worse.source} are equally exact, so neither is to be preferred"
    why = f"{better.source} {_reason(better)}"
    against = f"{worse.path} reports: {worse.losses[0]}" if worse.losses else f"{worse.source} {_reason(worse)}"
    return f"{start}: believe {better.path}, because {why}; {against}"


def _reason(witness: Witness) -> str:
    return EXACTNESS[witness.source or ""][1]


def _rank(witness: Witness) -> tuple[bool, int]:
    return bool(witness.losses), EXACTNESS[witness.source or ""][0]


def _is_one_run(first: Witness, second: Witness) -> bool | None:
    """Return whether two profiles overlap in time; None if one has no clock."""
    if first.span_s is None or second.span_s is None:
        return None
    common_s = min(first.span_s[1], second.span_s[1]) - max(first.span_s[0], second.span_s[0])
    shorter_s = min(first.span_s[1] - first.span_s[0], second.span_s[1] - second.span_s[0])
    return common_s >= max(OVERLAP_SHARE * shorter_s, 0.0)


def _span_s(content: Mapping[str, Any]) -> tuple[float, float] | None:
    try:
        return float(content["start_s"]), float(content["end_s"])
    except (KeyError, TypeError, ValueError):
        return None


def _losses(report: object) -> list[str]:
    if not isinstance(report, Mapping):
        return []
    counts = {name: report[name] for name in LOSSES if isinstance(report.get(name), int | float)}
    lines = [f"{count:g} {LOSSES[name]}" for name, count in counts.items() if count > 0]
    if report.get("truncated") is True:
        lines.append("the capture ends within a packet")
    return lines
