"""Map tasks to hosts, one task a host: by a ring, by a greedy heuristic, or by swapping tasks of these mappings."""

from gavotte.mapping.mapping import METHODS, keys, map_tasks, times_s

__all__ = ["METHODS", "keys", "map_tasks", "times_s"]
