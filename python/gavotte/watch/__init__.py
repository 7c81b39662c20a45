"""Sees from the times of one's own operations when the network's constant has moved, and keeps it up to date."""

from gavotte.watch.detect import Change, EdgeCusum, exceeds, movers
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
