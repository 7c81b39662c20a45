"""Watch a network from an event loop: its events are iterated, and leaving the loop ends the watch."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from gavotte.place import Running
from gavotte.watch import Notice, WatchQuestion, WatchSession, keep


async def watch(
    question: WatchQuestion,
    *,
    running: Callable[[], Running] | None = None,
    output: Path | None = None,
    complain: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[Notice, None]:
    """Yield each event of a watch as it happens; see `gavotte.watch.keep`.

    Close the generator to end the watch: `async with contextlib.aclosing(gavotte.aio.watch(question)) as notices`. Its
    agents are released before it is closed.

    Args:
        question: what to watch.
        running: as in a `WatchSession`; called in the watch's own thread.
        output: file in which the Network is kept up to date.
        complain: called in the event loop with a line for each problem that does not end the watch.

    Raises:
        GavotteError: as from `keep`.
    """
    loop, over = asyncio.get_running_loop(), threading.Event()
    notices: asyncio.Queue[Notice | None] = asyncio.Queue()

    def notify(notice: Notice | None) -> None:
        loop.call_soon_threadsafe(notices.put_nowait, notice)

    def tell(text: str) -> None:
        loop.call_soon_threadsafe(complain, text)

    def work() -> None:
        try:
            keep(question, WatchSession(over.wait, notify, tell, running=running, output=output))
        finally:
            notify(None)

    thread = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while (notice := await notices.get()) is not None:
            yield notice
        await thread
    finally:
        over.set()
        await asyncio.wait([thread])
        if thread.done() and not thread.cancelled():
            thread.exception()  # it was raised above, or the watch was left before
