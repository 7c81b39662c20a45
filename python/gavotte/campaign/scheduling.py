"""Take a campaign again and again: when each round starts, and which file it writes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gavotte.errors import GavotteError

TIME = "{time}"
"""What stands in the name of a file for the start of its round."""
TIME_FORMAT = "%Y%m%dT%H%M%SZ"


def round_path(path: str | Path, time_s: float) -> Path:
    """Return the name of a round's file: `{time}` becomes the UTC time at which the round starts."""
    return Path(str(path).replace(TIME, time.strftime(TIME_FORMAT, time.gmtime(time_s))))


def check_rounds(path: str | Path, *, every_s: float, resume: bool, count: int | None = None) -> None:
    """Check that each round gets a file of its own.

    Args:
        path: file of the samples, perhaps with `{time}` in its name.
        every_s: time between the starts of two rounds; 0 = there is one round.
        resume: whether an earlier run is continued.
        count: number of rounds; None = one, or without end if they have an interval.

    Raises:
        GavotteError: when rounds would write one file, or the name of a file to resume is unknown.
    """
    if (every_s > 0 or (count or 1) > 1) and TIME not in str(path):
        raise GavotteError(
            f"{'--every' if every_s > 0 else f'--count {count}'} needs a file for each round",
            hint=f"put {TIME} into the name, as in -o r-{TIME}.jsonl",
        )
    if resume and TIME in str(path):
        raise GavotteError("--resume needs the name of a file", hint=f"name the file itself, without {TIME}")


def rounds(
    every_s: float,
    count: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[int]:
    """Yield the number of each round when it is time for it, from 0.

    Rounds start at multiples of `every_s` after the first. A round that is still running at its successor's time makes
    that one be skipped, so that rounds keep their times of day.

    Args:
        every_s: seconds between the starts of two rounds; 0 = one after the other.
        count: number of rounds; 0 = without end.
        clock: gives the time in seconds.
        sleep: waits.
    """
    begin, number, taken = clock(), 0, 0
    while not count or taken < count:
        if (early := begin + number * every_s - clock()) > 0:
            sleep(early)
        yield number
        taken += 1
        number += 1
        if every_s > 0:
            number = max(number, math.ceil((clock() - begin) / every_s))
