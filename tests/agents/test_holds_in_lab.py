"""Two users at once: one measures, the other moves bytes between the same hosts."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import builders
from tests.shell import GAVOTTE, until

from gavotte import lab
from gavotte.agents import Budget, enrolled, fleet
from gavotte.formats.app import App, write_app
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.placement import write_placement
from gavotte.hosts import HoldState, check
from gavotte.measure import measure
from gavotte.run import run

pytestmark = pytest.mark.lab

PLACED = builders.placement({"x": "a", "y": "c"}, "sort")


def app(megabytes: int) -> App:
    return builders.app("sort", ("x", "y", megabytes * 1_000_000))


def holds(inventory: Inventory) -> list[HoldState]:
    return [hold for host in check(inventory).hosts for hold in host.holds]


def moving(inventory: Inventory) -> bool:
    """Whether both ends of the transfer report it."""
    return sum(state == "running" for hold in holds(inventory) for _, _, state in hold.jobs) == 2


@contextmanager
def another_user(inventory: Path, folder: Path, megabytes: int) -> Iterator[subprocess.Popen[bytes]]:
    """`gavotte run` in a process of its own, killed at the end."""
    write_app(folder / "sort.app.toml", app(megabytes))
    write_placement(folder / "p.placement.json", PLACED)
    command = [str(GAVOTTE), "run", "p.placement.json", "sort.app.toml", "--hosts", str(inventory)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_measurement_waits_for_a_short_transfer(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    moved: list[int] = []
    other = threading.Thread(target=lambda: moved.append(run(PLACED, [app(25)], inventory).bytes))
    other.start()
    until(lambda: moving(inventory))
    result = measure(inventory)
    other.join()
    assert moved == [25_000_000]
    assert (result.answered, result.beside) == (6, [])


@pytest.mark.rare
def test_a_measurement_names_a_long_transfer_and_a_killed_run_frees_its_hosts(
    small_cloud: lab.Session, tmp_path: Path
) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    with another_user(small_cloud.hosts_file, tmp_path, 1000):
        until(lambda: moving(inventory))
        values = {host.name: host for host in check(inventory).hosts}
        assert [host.usable for host in values.values()] == [True, True, True]
        (held,) = values["a"].holds
        assert (held.purpose, held.exclusive) == ("run sort", False)
        assert values["a"].verdict.startswith(f"ready; shared with run {held.run_id} (run sort, by ")
        assert values["b"].verdict == "ready"
        result = measure(inventory)
        (beside,) = result.beside
        assert (beside.run_id, beside.purpose, beside.kind) == (held.run_id, "run sort", "transfer")
        assert beside.hosts == ("a", "c")
    # The hold was not released: its lease ends.
    until(lambda: not holds(inventory))


def test_a_process_that_another_thread_blocks_keeps_its_leases(
    small_cloud: lab.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "MOST_LEASE_S", 1.0)
    inventory = read_inventory(small_cloud.hosts_file)
    with enrolled(inventory, Budget(1 << 20, 60.0), shared=True, direct=True) as held:
        # Without releasing Python's lock, for three leases: no Python thread can renew.
        ctypes.PyDLL(None).sleep(3)
        assert not [reply for reply in held.renew().values() if isinstance(reply, Exception)]
        assert len(holds(inventory)) == 3
    assert not holds(inventory)
