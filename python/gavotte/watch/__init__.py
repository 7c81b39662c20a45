"""Detect changes of a network's constant from measurements or an application's own operations, and update it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.watch.detect import Change, EdgeCusum, exceeds, movers
    from gavotte.watch.executing import Execution, Executor
    from gavotte.watch.expecting import Shift
    from gavotte.watch.keeping import Kept, Notice, WatchQuestion, WatchSession, keep
    from gavotte.watch.loop import Alarm, Event, Watcher, follow, watch
    from gavotte.watch.observing import Operation, Tail, TreeWatch
    from gavotte.watch.reassessing import Reassessment, reassess

__all__ = [
    "Alarm",
    "Change",
    "EdgeCusum",
    "Event",
    "Execution",
    "Executor",
    "Kept",
    "Notice",
    "Operation",
    "Reassessment",
    "Shift",
    "Tail",
    "TreeWatch",
    "WatchQuestion",
    "WatchSession",
    "Watcher",
    "exceeds",
    "follow",
    "keep",
    "movers",
    "reassess",
    "watch",
]

load_on_first_use(
    __name__,
    {
        "detect": ("Change", "EdgeCusum", "exceeds", "movers"),
        "executing": ("Execution", "Executor"),
        "expecting": ("Shift",),
        "keeping": ("Kept", "Notice", "WatchQuestion", "WatchSession", "keep"),
        "loop": ("Alarm", "Event", "Watcher", "follow", "watch"),
        "observing": ("Operation", "Tail", "TreeWatch"),
        "reassessing": ("Reassessment", "reassess"),
    },
)
