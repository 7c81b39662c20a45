"""Run a verb in a thread, pass its progress on to the event loop, and end it when the awaiting task is cancelled."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from gavotte.launch import Launched, LaunchQuestion, LaunchSession
from gavotte.launch import launch as launch_now
from gavotte.measure import measure as measure_now
from gavotte.run import run as run_now
from gavotte.transfer import BroadcastSession
from gavotte.transfer import broadcast as broadcast_now

if TYPE_CHECKING:
    from gavotte.formats.history import History
    from gavotte.formats.inventory import Inventory
    from gavotte.measure import Measurement
    from gavotte.run import RunResult
    from gavotte.terms import Progress
    from gavotte.transfer import BroadcastResult

Result = TypeVar("Result")

PATIENCE_S = 30.0
"""How long a cancelled job may take to end by itself."""


class _Cancelled(BaseException):
    """Ends a verb from its own report of progress. Nothing catches it by mistake, as nothing catches Ctrl-C."""


async def measure(inventory: Inventory, *words: Any, progress: Progress | None = None, **options: Any) -> Measurement:
    """Measure the paths between hosts; see `gavotte.measure.measure`.

    Args:
        inventory: the hosts.
        words: further arguments, as of the verb.
        progress: called in the event loop with the number of paths done and of all.
        options: named arguments of the verb.

    Raises:
        GavotteError: as from the verb.
    """
    return await _awaited(lambda report: measure_now(inventory, *words, progress=report, **options), progress)


async def run(*words: Any, progress: Progress | None = None, **options: Any) -> RunResult:
    """Run a placement with real bytes; see `gavotte.run.run`.

    Args:
        words: arguments, as of the verb.
        progress: called in the event loop with the number of transfers done and of all.
        options: named arguments of the verb.

    Raises:
        GavotteError: as from the verb.
    """
    return await _awaited(lambda report: run_now(*words, progress=report, **options), progress)


async def broadcast(*words: Any, **options: Any) -> BroadcastResult:
    """Bring one file or object to many hosts; see `gavotte.transfer.broadcast`.

    Args:
        words: arguments, as of the verb.
        options: named arguments of the verb. The functions of its `session` are called in the broadcast's own thread.

    Raises:
        GavotteError: as from the verb.
    """
    session = options.pop("session", BroadcastSession())

    def carry(report: Callable[..., None]) -> BroadcastResult:
        def watch(*state: Any) -> Any:
            report()
            return None if session.watch is None else session.watch(*state)

        return broadcast_now(*words, session=replace(session, watch=watch), **options)

    return await _awaited(carry, None)


async def launch(
    question: LaunchQuestion,
    *,
    note: Callable[[str], None] = lambda _: None,
    complain: Callable[[str], None] = lambda _: None,
) -> Launched:
    """Run a job to its end; see `gavotte.launch.launch`. A cancelled one gets SIGTERM, and after `PATIENCE_S` SIGKILL.

    Args:
        question: the job and its hosts. Those that must be measured are measured before.
        note: called in the job's own thread with a line about what happens.
        complain: called there with a warning.

    Raises:
        GavotteError: as from the verb.
    """
    send: list[Callable[[int], None]] = []

    def carry(report: Callable[..., None]) -> Launched:
        def started(sending: Callable[[int], None]) -> None:
            send.append(sending)
            report()

        def measured(inventory: Inventory) -> History:
            return measure_now(inventory, progress=report).history

        return launch_now(question, LaunchSession(measured, note, complain, started))

    def end(number: int) -> None:
        for sending in send:
            sending(number)

    return await _awaited(carry, None, end)


async def _awaited(
    work: Callable[[Callable[..., None]], Result],
    progress: Callable[..., None] | None,
    end: Callable[[int], None] | None = None,
) -> Result:
    """Return what the work returns. It is handed a function to call with its progress.

    Args:
        work: does the work.
        progress: called in the event loop with the progress.
        end: sends a signal to what the work waits for.
    """
    loop, over = asyncio.get_running_loop(), threading.Event()

    def report(*state: Any) -> None:
        if over.is_set():
            raise _Cancelled
        if progress is not None:
            loop.call_soon_threadsafe(progress, *state)

    thread = asyncio.ensure_future(asyncio.to_thread(_ended, work, report))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        over.set()
        if end is not None:
            end(signal.SIGTERM)
            await asyncio.wait([thread], timeout=PATIENCE_S)
            if not thread.done():
                end(signal.SIGKILL)
        await asyncio.wait([thread])
        raise


def _ended(work: Callable[[Callable[..., None]], Result], report: Callable[..., None]) -> Result:
    """Return what the work returns. A future holds asyncio's own error, and not `_Cancelled`."""
    try:
        return work(report)
    except _Cancelled:
        raise asyncio.CancelledError from None
