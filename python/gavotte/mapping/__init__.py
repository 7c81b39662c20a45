"""Maps tasks to hosts one to one: the greedy of topology mapping, a ring, and exchanges of two tasks."""

from gavotte.mapping.mapping import METHODS, busiest_s, keys, map_tasks

__all__ = ["METHODS", "busiest_s", "keys", "map_tasks"]
