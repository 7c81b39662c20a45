"""Time since the command started, for time limits that cover the whole command."""

from __future__ import annotations

import os
import time
from pathlib import Path

_START_FIELD = 19
"""Position of the start time in `/proc/self/stat`, behind the name of the program."""

_begun_s: list[float] = []
"""When the command's process started, by `time.monotonic`; empty if verbs are called by another program."""


def begin() -> None:
    """Record that this process is one command, which started with the process."""
    _begun_s[:] = [time.monotonic() - _process_age_s()]


def elapsed_s() -> float:
    """Return the seconds since the command started, imports included; 0 if another program has called the verb."""
    return time.monotonic() - _begun_s[0] if _begun_s else 0.0


def _process_age_s() -> float:
    """Return the seconds since this process started; 0 if the system does not report them."""
    try:
        fields = Path("/proc/self/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
        start_s = int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - start_s, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
