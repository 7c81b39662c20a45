"""Compare and merge several profiles of one application."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.app import App, read_app
from gavotte.formats.files.reading import parse_json, read_text
from gavotte.profile.traffic import Count, Traffic, TrafficSpan
from gavotte.terms.equivalence import Verdict

CHANGED_SHARE = 0.1
"""Share of the bytes, 0 to 1, that must move to other pairs before a pattern counts as changed.

A smaller share changes completion times by less than itself.
"""


MOST_TIMES = 10_000
"""Multiple of the traffic beyond which no number is given."""


@dataclass(frozen=True)
class ProfileDifference:
    """Difference between two profiles of one application.

    Attributes:
        moved_share: share of the bytes, 0 to 1, that moved to other pairs, with both profiles scaled to one volume.
        low_share: least share that the intervals allow: each pair counts by the gap between its two intervals.
        high_share: most that they allow: each pair counts by the distance between the far ends of its intervals.
        volume_ratio: bytes of the second profile divided by those of the first.
        pairs: (source, target, share of the first profile, share of the second), the largest difference first.
        threshold: share above which the pattern counts as different.
        detectable_share: smallest moved share that would have been found different.
        times: how many times as much traffic would decide, if the intervals come from samples; None = decided, or more
            than ten thousand times.
    """

    moved_share: float
    low_share: float
    high_share: float
    volume_ratio: float
    pairs: list[tuple[str, str, float, float]]
    threshold: float
    detectable_share: float
    times: int | None

    @property
    def verdict(self) -> Verdict:
        """Different if even the least share is above the threshold, alike if not even the most is."""
        if self.low_share > self.threshold:
            return "different"
        return "alike" if self.high_share <= self.threshold else "cannot tell"


def compare(first: Traffic, second: Traffic, *, threshold: float = CHANGED_SHARE) -> ProfileDifference:
    """Compare two profiles, and decide whether the application's traffic pattern has changed.

    Args:
        first: the earlier profile.
        second: the later one.
        threshold: share of the bytes, 0 to 1; the pattern has changed if more than this moved to other pairs.

    Raises:
        GavotteError: when one profile has no bytes between two tasks.
    """
    ours, theirs = _between(first), _between(second)
    whole, other = (sum(count.bytes for count in each.values()) for each in (ours, theirs))
    for total, traffic in ((whole, first), (other, second)):
        if not total:
            raise GavotteError(f"{traffic.inputs[0]}: has no bytes between two tasks", hint="compare others")
    none = Count.exact(0)
    moved = least = most = 0.0
    rows = []
    for pair in {**ours, **theirs}:
        a = [each / whole for each in ours.get(pair, none)]
        b = [each / other for each in theirs.get(pair, none)]
        moved += abs(a[0] - b[0]) / 2
        least += max(a[1] - b[2], b[1] - a[2], 0.0) / 2
        most += max(a[2] - b[1], b[2] - a[1]) / 2
        rows.append((*pair, a[0], b[0]))
    rows.sort(key=lambda row: (-abs(row[2] - row[3]), row[:2]))
    # Not all bytes can move more than once.
    shares = min(moved, 1.0), min(least, 1.0), min(most, 1.0)
    return ProfileDifference(
        *shares, other / whole, rows, threshold, min(threshold + moved - least, 1.0), _times(*shares, threshold)
    )


def _times(moved: float, least: float, most: float, threshold: float) -> int | None:
    """Return the multiple of the traffic whose intervals exclude the threshold; None = not needed, or too much.

    Intervals of samples narrow with the square root of their number.
    """
    if least > threshold or most <= threshold:
        return None
    width, gap = (moved - least, moved - threshold) if moved > threshold else (most - moved, threshold - moved)
    times = (width / gap) ** 2 if gap > 0 else math.inf
    return math.ceil(times) if times <= MOST_TIMES else None


def _between(traffic: Traffic) -> dict[tuple[str, str], Count]:
    return {pair: count for pair, count in traffic.counts.items() if pair[0] != pair[1]}


def merge(runs: Sequence[Traffic]) -> Traffic:
    """Merge the Traffic of several runs: each pair's mean bytes, with an interval from the least to the most.

    Raises:
        GavotteError: when `runs` is empty.
    """
    if not runs:
        raise GavotteError("nothing to merge", hint="name two or more profiles")
    counts = [run.counts for run in runs]
    none = Count.exact(0)
    merged = {}
    for pair in {pair: None for each in counts for pair in each}:
        seen = [each.get(pair, none) for each in counts]
        mean = round(sum(each.bytes for each in seen) / len(seen))
        merged[pair] = Count(mean, min(each.low_bytes for each in seen), max(each.high_bytes for each in seen))
    return Traffic(
        inputs=tuple(where for run in runs for where in run.inputs),
        tasks=tuple(dict.fromkeys(task for run in runs for task in run.tasks)),
        spans=(TrafficSpan(None, None, merged),),
        complete=all(run.complete for run in runs),
        unattributed_bytes=round(sum(run.unattributed_bytes for run in runs) / len(runs)),
        seen={"runs": len(runs)},
    )


def read_profile(path: str | Path) -> Traffic:
    """Read the Traffic that `gavotte profile --json` printed, or make exact Traffic from an App's file.

    Raises:
        FormatError: naming file, field and remedy.
    """
    if Path(path).suffix == ".toml":
        return _of_app(read_app(path), str(path))
    content = parse_json(read_text(path), str(path))
    if not isinstance(content, dict) or "pairs" not in content:
        return _of_app(read_app(path), str(path))
    spans = content.get("series") or [{"start_s": None, "end_s": None, "pairs": content["pairs"]}]
    try:
        read = [TrafficSpan(_time(each["start_s"]), _time(each["end_s"]), _pairs(each["pairs"])) for each in spans]
        named = [str(task["name"]) for task in content["app"]["task"]]
        unattributed = int(content.get("unattributed_bytes", 0))
    except (KeyError, TypeError, ValueError, OverflowError):
        remedy = "use what `gavotte profile --json` printed"
        raise FormatError(str(path), "", "is not a profile", remedy) from None
    tasks = dict.fromkeys([*named, *(task for span in read for pair in span.counts for task in pair)])
    return Traffic((str(path),), tuple(tasks), tuple(read), unattributed_bytes=unattributed)


def _of_app(app: App, path: str) -> Traffic:
    sums: dict[tuple[str, str], Count] = {}
    for each in app.transfer:
        pair = each.source, each.target
        sums[pair] = sums.get(pair, Count.exact(0)).plus(Count.exact(each.bytes))
    return Traffic((path,), tuple(task.name for task in app.task), (TrafficSpan(None, None, sums),))


def _time(value: Any) -> float | None:
    return None if value is None else float(value)


def _pairs(rows: Any) -> dict[tuple[str, str], Count]:
    counts = {}
    for row in rows:
        count = Count(int(row["bytes"]), int(row["low_bytes"]), int(row["high_bytes"]))
        if not 0 <= count.low_bytes <= count.bytes <= count.high_bytes <= 1 << 70:
            raise ValueError
        counts[str(row["source"]), str(row["target"])] = count
    return counts
