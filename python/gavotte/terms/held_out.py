"""When a pair that was held out counts as off from what the other pairs predict."""

OFF = 0.05
"""Relative error from which on a pair counts as off."""
