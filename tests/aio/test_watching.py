"""A watch that is iterated: it yields events as they happen, and ends when it is left, cancelled or wrong."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest
from tests.builders import history
from tests.model.synthetic import truth
from tests.watch.test_observing import lines, operations

from gavotte import aio
from gavotte.errors import GavotteError
from gavotte.model import model
from gavotte.watch import WatchQuestion

NETWORK = model(history(8e6 / truth(6, np.random.default_rng(0))[None]))


def working() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("asyncio_") and each.is_alive()]


def test_events_are_iterated(tmp_path: Path) -> None:
    times = tmp_path / "t.jsonl"
    times.write_text(lines(operations(20, 14)))

    async def first() -> tuple[str, int]:
        ticks = 0
        async with aclosing(aio.watch(WatchQuestion(NETWORK, observations=times))) as notices:
            task = asyncio.ensure_future(anext(notices))
            while not task.done():
                await asyncio.sleep(0.01)
                ticks += 1
                if ticks == 20:  # the event happens while the loop does other work
                    with times.open("a") as file:
                        file.write(lines(operations(20, 15, slow={("h2", "h5"): 4.0}), first=21))
            return (await task).event.kind, ticks

    kind, ticks = asyncio.run(asyncio.wait_for(first(), 30))
    assert kind == "moved"
    assert ticks > 20


def test_a_watch_ends_by_itself_and_by_cancelling(tmp_path: Path) -> None:
    times = tmp_path / "t.jsonl"
    times.write_text(lines(operations(20, 14)))

    async def whole(count: int | None) -> int:
        return len([notice async for notice in aio.watch(WatchQuestion(NETWORK, observations=times, count=count))])

    assert asyncio.run(asyncio.wait_for(whole(20), 30)) == 0

    async def cancelled() -> None:
        task = asyncio.ensure_future(whole(None))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(cancelled(), 30))
    assert not working()


def test_an_error_of_a_watch_is_raised() -> None:
    async def wrong() -> None:
        async for _ in aio.watch(WatchQuestion(NETWORK)):
            pass

    with pytest.raises(GavotteError, match="nothing to watch"):
        asyncio.run(wrong())
