"""Verbs that wait for hosts, to be awaited: `await gavotte.aio.measure(inventory)`.

Each runs in a thread of its own and takes the arguments of the verb of its name. When the awaiting task is cancelled,
the verb ends at its next report of progress, and releases its agents. A job of `launch` gets a signal. Only then does
the task end. A watch is iterated: `async for notice in gavotte.aio.watch(question)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.aio.awaiting import broadcast, launch, measure, run
    from gavotte.aio.watching import watch

__all__ = ["broadcast", "launch", "measure", "run", "watch"]

load_on_first_use(
    __name__,
    {
        "awaiting": ("broadcast", "launch", "measure", "run"),
        "watching": ("watch",),
    },
)
