"""Awaited verbs on real hosts: they end as the verbs do, report progress, and release hosts when cancelled."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest
from tests.shell import processes_of, until

from gavotte import aio, lab
from gavotte.errors import GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.launch import LaunchQuestion

pytestmark = pytest.mark.lab


def test_two_things_at_once(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    seen: list[tuple[int, int, str]] = []

    async def both() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.02)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        measured = await aio.measure(
            inventory, progress=lambda done, of: seen.append((done, of, threading.current_thread().name))
        )
        ticking.cancel()
        assert measured.history.answered == 6
        return ticks

    assert asyncio.run(both()) > 5
    assert seen[-1][:2] == (6, 6)
    assert {name for _, _, name in seen} == {"MainThread"}


def test_a_cancelled_measurement_releases_its_agents(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)

    async def cancelled() -> float:
        first = asyncio.Event()
        task = asyncio.ensure_future(aio.measure(inventory, count=500, progress=lambda *_: first.set()))
        await asyncio.wait_for(first.wait(), 20)
        begin_s = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begin_s

    assert asyncio.run(cancelled()) < 15
    # Hosts that are still held would make this wait.
    assert asyncio.run(aio.measure(inventory)).history.answered == 6


def test_a_broadcast_is_awaited_and_cancelled(small_cloud: lab.Session, tmp_path: Path) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    (tmp_path / "object").write_bytes(bytes(200_000))
    output = str(tmp_path / "{host}.copy")

    async def whole() -> None:
        done = await aio.broadcast(str(tmp_path / "object"), inventory, "a", output)
        assert all(receiver.ok for receiver in done.receivers)

    asyncio.run(whole())
    assert (tmp_path / "b.copy").read_bytes() == bytes(200_000)
    (tmp_path / "object").write_bytes(bytes(400_000_000))

    async def cancelled() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(
                aio.broadcast(str(tmp_path / "object"), inventory, "a", str(tmp_path / "{host}.big")), 2
            )

    asyncio.run(cancelled())
    assert not (tmp_path / "c.big").exists()
    assert asyncio.run(aio.measure(inventory)).history.answered == 6


def test_an_error_comes_as_from_the_verb(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    with pytest.raises(GavotteError, match="nobody"):
        asyncio.run(aio.broadcast("/tmp/none", inventory, "nobody", "/tmp/{host}.x"))


EXCHANGE = Path(__file__).parents[1] / "launch" / "programs" / "exchange.py"


def test_a_job_is_awaited_and_cancelled(
    small_cloud: lab.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"GAVOTTE_MARK={tmp_path}"
    path = f"{EXCHANGE.parent}:{os.environ['PATH']}"
    for name, value in {**small_cloud.environment(), "PATH": path, "GAVOTTE_MARK": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)

    def job(*words: str) -> LaunchQuestion:
        command = ["torchrun", "--nnodes", "2", str(EXCHANGE), *words]
        return LaunchQuestion(command, hosts="lab", store=str(tmp_path / "store"))

    notes: list[str] = []
    ended = asyncio.run(aio.launch(job("90000"), note=notes.append))
    assert (ended.status, ended.kept) == (0, True)
    assert not processes_of(mark)

    async def cancelled() -> None:
        task = asyncio.ensure_future(aio.launch(job("9", "wait")))
        end_s = time.monotonic() + 60
        while not any("exchange.py" in line for line in processes_of(mark).values()):
            assert time.monotonic() < end_s
            await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    until(lambda: not processes_of(mark))
    # A task that is cancelled before its job has started starts none.

    async def at_once() -> None:
        task = asyncio.ensure_future(aio.launch(job("9", "wait")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(at_once())
    assert not processes_of(mark)
