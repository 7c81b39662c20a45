"""Applications in sequence, carried out: placed and started as they arrive, and moved when a review says that it pays.

Input: Apps with their arrivals, a Network, and the command that starts an application with its placement. Output: what
ran where and when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.launch.live.question import LiveQuestion, LiveResult, LiveSession, Ran
    from gavotte.launch.live.sequencing import live

__all__ = ["LiveQuestion", "LiveResult", "LiveSession", "Ran", "live"]

load_on_first_use(
    __name__,
    {
        "question": ("LiveQuestion", "LiveResult", "LiveSession", "Ran"),
        "sequencing": ("live",),
    },
)
