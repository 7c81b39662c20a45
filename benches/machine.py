"""The machine and the build, which every benchmark prints."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from gavotte import _core


def machine() -> str:
    """Return the machine and the build in a line; the load shows how busy the machine was with other work."""
    models = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    name = models[0] if models else platform.machine()
    return (
        f"{name}, {os.cpu_count()} CPUs, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}, "
        f"gavotte {_core.version()} ({_core.build_profile()})"
    )


def processor_times() -> tuple[float, float]:
    """Return the ticks of all processors since boot: all, and idle."""
    ticks = [int(text) for text in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]
