"""The lab: an emulated cloud of network namespaces on one Linux machine, with real kernels, packets and programs.

Input: a Topology. Output: hosts with agents, their Inventory, and a way to run programs on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.lab.control import (
        HostStatus,
        LabStatus,
        Session,
        command,
        current,
        down,
        execute,
        session,
        status,
        sweep,
        up,
    )
    from gavotte.lab.support import missing, supported

__all__ = [
    "HostStatus",
    "LabStatus",
    "Session",
    "command",
    "current",
    "down",
    "execute",
    "missing",
    "session",
    "status",
    "supported",
    "sweep",
    "up",
]

load_on_first_use(
    __name__,
    {
        "control": (
            "HostStatus",
            "LabStatus",
            "Session",
            "command",
            "current",
            "down",
            "execute",
            "session",
            "status",
            "sweep",
            "up",
        ),
        "support": ("missing", "supported"),
    },
)
