"""Sees from the times of one's own operations when the network's constant has moved, and keeps it up to date."""

from gavotte.watch.detect import Change, EdgeCusum, exceeds, movers
from gavotte.watch.keeping import Kept, Told, keep
from gavotte.watch.loop import Event, Move, Watcher, follow, watch
from gavotte.watch.observing import Operation, Tail, TreeWatch
from gavotte.watch.reviewing import Review, review

__all__ = [
    "Change",
    "EdgeCusum",
    "Event",
    "Kept",
    "Move",
    "Operation",
    "Review",
    "Tail",
    "Told",
    "TreeWatch",
    "Watcher",
    "exceeds",
    "follow",
    "keep",
    "movers",
    "review",
    "watch",
]
