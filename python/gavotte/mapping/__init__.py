"""Map tasks to hosts, one task a host: by a ring, by a greedy heuristic, or by swapping tasks of these mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.mapping.mapping import METHODS, keys, map_tasks, times_s

__all__ = ["METHODS", "keys", "map_tasks", "times_s"]

load_on_first_use(
    __name__,
    {
        "mapping": ("METHODS", "keys", "map_tasks", "times_s"),
    },
)
