"""The lab: an emulated cloud of network namespaces on one Linux machine, with real kernels, packets and programs.

Input: a Topology. Output: hosts with agents, their Inventory, and a way to run programs on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    """Load the room's functions on first use: the keeper, a process of its own, must start without them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gavotte.lab import control, support

    return getattr(control if hasattr(control, name) else support, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
