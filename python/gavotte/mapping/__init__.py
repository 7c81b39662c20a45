"""Maps tasks to hosts one to one: the greedy of topology mapping, a ring, and exchanges of two tasks."""

from gavotte.mapping.mapping import METHODS, keys, map_tasks, times_s

__all__ = ["METHODS", "keys", "map_tasks", "times_s"]
