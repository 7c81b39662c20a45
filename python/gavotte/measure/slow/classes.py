"""Find classes of hosts that are equally fast by design, such as two types of instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gavotte.formats.history import Floats
from gavotte.measure.slow.levels import exp

CLASS_SHARE, CLASS_HOSTS = 0.3, 3
"""A class has at least this share of all hosts, and this many. Fewer equal hosts may be bad in the same way."""


@dataclass(frozen=True)
class HostClass:
    """Hosts that are equally fast in one direction.

    Attributes:
        level: median of their levels, the natural logarithm of a rate in bit/s.
        hosts: number of them.
    """

    level: float
    hosts: int

    @property
    def rate_bps(self) -> float:
        """Median rate in bit/s."""
        return exp(self.level)


def classes_of(levels: Floats, width: float) -> list[HostClass]:
    """Return the classes of some hosts, the fastest first: repeatedly the levels that most hosts have.

    Without a class, all hosts together count as one.

    Args:
        levels: levels of the hosts in one direction; NaN = unknown.
        width: most difference of two levels in a class.
    """
    left = np.sort(levels[np.isfinite(levels)])
    if not len(left):
        return []
    least = max(CLASS_HOSTS, math.ceil(CLASS_SHARE * len(left)))
    classes = list[HostClass]()
    while len(left) >= least:
        after = np.searchsorted(left, left + width, side="right")
        sizes = after - np.arange(len(left))
        first = int(np.argmax(sizes))
        if sizes[first] < least:
            break
        members = left[first : after[first]]
        classes.append(HostClass(float(np.median(members)), len(members)))
        left = np.concatenate([left[:first], left[after[first] :]])
    everything = levels[np.isfinite(levels)]
    return sorted(classes or [HostClass(float(np.median(everything)), len(everything))], key=lambda each: -each.level)


def reference_of(level: float, half: float, classes: Sequence[HostClass], width: float) -> tuple[HostClass, bool]:
    """Return the class to compare a host with: its own, else the nearest faster one, else the fastest.

    Args:
        level: the host's level.
        half: how much the level may be off.
        classes: the fastest first; at least one.
        width: most difference of two levels in a class.

    Returns:
        the class, and whether it is certain: false if the host may also belong to a slower class.
    """
    own = [each for each in classes if abs(level - each.level) <= width / 2]
    if own:
        return min(own, key=lambda each: abs(level - each.level)), True
    maybe = any(each.level < level <= each.level + width / 2 + half for each in classes)
    faster = [each for each in classes if each.level >= level]
    return (faster[-1] if faster else classes[0]), not (maybe and faster)
