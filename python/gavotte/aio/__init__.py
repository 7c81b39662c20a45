"""Verbs that wait for hosts, to be awaited: `await gavotte.aio.measure(inventory)`.

Each runs in a thread of its own and takes the arguments of the verb of its name. When the awaiting task is cancelled,
the verb ends at its next report of progress, and releases its agents. Only then does the task end.
"""

from gavotte.aio.awaiting import broadcast, measure, run

__all__ = ["broadcast", "measure", "run"]
