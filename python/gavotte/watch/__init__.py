"""Sees from the times of one's own operations when the network's constant has moved, and keeps it up to date."""

from gavotte.watch.detect import Change, EdgeCusum, exceeds, movers
from gavotte.watch.loop import Event, Move, Watcher, follow, watch
from gavotte.watch.observing import Operation, Tail, TreeWatch

__all__ = [
    "Change",
    "EdgeCusum",
    "Event",
    "Move",
    "Operation",
    "Tail",
    "TreeWatch",
    "Watcher",
    "exceeds",
    "follow",
    "movers",
    "watch",
]
