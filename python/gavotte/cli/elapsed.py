"""Age of this process, for time limits that cover the whole command."""

from __future__ import annotations

import os
import time
from pathlib import Path

_START_FIELD = 19
"""Position of the start time in `/proc/self/stat`, behind the name of the program."""


def process_age_s() -> float:
    """Return the seconds since this process started, imports included; 0 if the system does not report them."""
    try:
        fields = Path("/proc/self/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
        start_s = int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - start_s, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
