"""Sees from the times of one's own operations when the network's constant has moved."""

from gavotte.watch.detect import Change, EdgeCusum, exceeds, movers

__all__ = ["Change", "EdgeCusum", "exceeds", "movers"]
