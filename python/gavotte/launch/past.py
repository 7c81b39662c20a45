"""Predict a job's wall time from its earlier runs.

1. Runs in the same order predict the next one by their mean.
2. With the job's trace, a replay in both orders predicts it (`launch.replaying`).
3. Without one, runs in another order predict it as `place.forecast` does: the time that messages take changes with the
   order, and the rest of a run stays or scales with them.
4. Runs of one order scatter. Their pooled scatter, or else an assumed one, widens the interval.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.record import Record
from gavotte.place import Question, forecast, with_slots

ASSUMED_SCATTER = 0.05
"""Relative standard deviation of the wall times of equal runs, until two runs in one order show it."""
LEAST_SCATTER = 0.01
"""Least scatter to assume: two runs may agree by chance."""
MOST_RUNS = 20
"""Newest runs that count: a program and a network change."""
LEAST_TRIALS = 2
"""Runs that it takes to drop an order: one may have met a busy network."""
_BY_USER = frozenset(128 + each for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
_HALF_WIDTH = 1.96
"""Standard deviations on each side of a 95 % interval."""


@dataclass(frozen=True)
class Past:
    """An earlier run.

    Attributes:
        order: host of each rank.
        wall_s: its wall time.
        counted: whether its messages were counted, and its calls traced.
        scratch: folder in which files of all its ranks were collected; empty = none were.
        settings: how the MPI library's algorithms were set; empty = they were its own choice.
    """

    order: tuple[str, ...]
    wall_s: float
    counted: bool = False
    settings: str = ""
    scratch: str = ""


@dataclass(frozen=True)
class WallTime:
    """A predicted wall time with its 95 % interval, in seconds."""

    predicted_s: float
    low_s: float
    high_s: float


def past_of(records: Sequence[Record]) -> list[Past]:
    """Return the runs that ended well, from Records of launches in time order."""
    runs = [
        Past(
            tuple(str(record.labels.get("order", "")).split(",")),
            record.value,
            record.labels.get("counted") is True,
            str(record.labels.get("settings") or ""),
            str(record.labels.get("scratch") or ""),
        )
        for record in records
        if record.labels.get("status") == 0 and record.value > 0
    ]
    return runs[-MOST_RUNS:]


def blames_settings(records: Sequence[Record]) -> bool:
    """Return whether settings of collectives may be why a job failed.

    The last run with settings failed, and since then none has failed without them. Runs that the user's signal ended
    say nothing.

    Args:
        records: Records of one job's launches, in time order.
    """
    blamed = False
    for record in records:
        status = record.labels.get("status")
        if isinstance(status, int) and status not in _BY_USER:
            if record.labels.get("settings"):
                blamed = status != 0
            elif status != 0:
                blamed = False
    return blamed


def disproved(past: Sequence[Past], order: Sequence[str], default: Sequence[str]) -> str:
    """Return in words that runs in an order were slower than in the launcher's own; empty = they were not.

    The least wall times are compared, since whatever else uses the network only adds to them. Once the launcher's own
    order has filled the last `MOST_RUNS`, the other one gets another trial.

    Args:
        past: earlier runs.
        order: host of each rank.
        default: host of each rank in the launcher's own order.
    """
    ours_s = [each.wall_s for each in past if each.order == tuple(order)]
    default_s = [each.wall_s for each in past if each.order == tuple(default)]
    if tuple(order) == tuple(default) or len(ours_s) < LEAST_TRIALS or not default_s or min(ours_s) <= min(default_s):
        return ""
    return f"runs took at least {min(ours_s):.3g} s in another order, {min(default_s):.3g} s in the launcher's own"


Replayed = Callable[[Sequence[str]], tuple[float, float]]
"""Returns the wall time that a replay predicts in an order of hosts, and half of its 95 % interval, in seconds."""


def predict(
    past: Sequence[Past],
    order: Sequence[str],
    app: App | None,
    network: Network | None,
    slots: Mapping[str, int],
    replayed: Replayed | None = None,
    settings: str = "",
) -> WallTime | None:
    """Predict the wall time in an order of hosts.

    Args:
        past: earlier runs, in time order.
        order: host of each rank.
        app: the job's messages; None = unknown, so that only runs in the same order count.
        network: the current Network; None = unknown.
        slots: largest number of ranks on each host.
        replayed: the replay of the job's trace; None = there is no trace.
        scratch: folder in which files of all its ranks were collected; empty = none were.
        settings: how the MPI library's algorithms will be set. Runs with other settings do not count.

    Returns:
        The prediction; None = no run allows one.
    """
    by_order: dict[tuple[str, ...], list[float]] = {}
    past = [each for each in past if each.settings == settings]
    for each in past:
        by_order.setdefault(each.order, []).append(each.wall_s)
    scatter = _scatter(list(by_order.values()))
    if same := by_order.get(tuple(order)):
        middle = fmean(same)
        half = _HALF_WIDTH * scatter * math.sqrt(1 + 1 / len(same)) * middle
        return WallTime(middle, max(middle - half, 0.0), middle + half)
    if replayed is not None:
        middle, varying_s = replayed(order)
        half = math.hypot(varying_s, _HALF_WIDTH * scatter * middle)
        return WallTime(middle, max(middle - half, 0.0), middle + half)
    if app is None or network is None:
        return None
    known = [key for key in by_order if len(key) == len(order) and set(key) <= set(network.names)]
    if not known:
        return None
    newest = next(each.order for each in reversed(past) if each.order in known)
    names = [task.name for task in app.task]
    before, after = (dict(zip(names, hosts, strict=True)) for hosts in (newest, order))
    result = forecast(Question(with_slots(network, slots), [app]), before, after, by_order[newest])
    if result.low_s is None or result.high_s is None:
        return None
    middle = (result.low_s + result.high_s) / 2
    half = math.hypot((result.high_s - result.low_s) / 2, _HALF_WIDTH * scatter * middle)
    return WallTime(middle, max(middle - half, 0.0), middle + half)


def _scatter(groups: Sequence[Sequence[float]]) -> float:
    """Return the relative standard deviation of runs in one order, pooled over all orders."""
    squares = [sum((value / fmean(each) - 1) ** 2 for value in each) for each in groups if len(each) > 1]
    freedom = sum(len(each) - 1 for each in groups)
    return max(math.sqrt(sum(squares) / freedom), LEAST_SCATTER) if freedom else ASSUMED_SCATTER
