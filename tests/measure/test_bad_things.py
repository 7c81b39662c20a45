"""Failures during a measurement: hosts vanish, disks fill up, controllers are killed, two runs meet."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import builders, faults
from tests.shell import GAVOTTE, until

from gavotte import lab
from gavotte.agents import Budget, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import OUT_OF_TOUCH, Answer
from gavotte.agents.schedule import carry_out as send
from gavotte.errors import AgentError, BusyError
from gavotte.formats.history import read_history, write_history
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.measure import MeasureQuestion, MeasureSession, Method, bulk, carry_out, measure, plan_measurement
from gavotte.measure.carry import agents
from gavotte.measure.sharing import measure_sharing
from gavotte.run import run

pytestmark = pytest.mark.lab

HOSTS = ["h0", "h1", "h2", "h3", "h4", "h5"]
FEW = HOSTS[:4]
VICTIM = "h3"

CLOUD = builders.topology(
    [{"name": name, "switch": f"tor{index // 3}", "egress": "200mbit"} for index, name in enumerate(HOSTS)],
    switches=["core", {"name": "tor0", "up": "1gbit"}, {"name": "tor1", "up": "1gbit"}],
)


@pytest.fixture
def cloud() -> Iterator[lab.Session]:
    """Six hosts in two racks, for this file alone, because its tests break things."""
    with lab.session(CLOUD, source="bad things") as session:
        yield session


@pytest.fixture
def few() -> Iterator[lab.Session]:
    """Four of them at one switch: experiments of all six take twenty seconds."""
    hosts = [{"name": name, "switch": "tor1", "egress": "200mbit"} for name in FEW]
    with lab.session(builders.topology(hosts, switches=["core", "tor1"]), source="bad things") as session:
        yield session


def kill(session: lab.Session, _address: str) -> None:
    faults.kill_agent(session, VICTIM)


def unplug(session: lab.Session, _address: str) -> None:
    faults.unplug(session, VICTIM)


def blackhole(session: lab.Session, address: str) -> None:
    faults.blackhole(session, "tor1", address)


def address_of(inventory: Inventory, name: str) -> str:
    return next(host.address for host in inventory.host if host.name == name)


@pytest.mark.parametrize("bad", [kill, unplug, blackhole])
@pytest.mark.parametrize("after", [0, 9], ids=["from the start", "in the middle"])
def test_a_host_that_vanishes_does_not_hold_up_the_others(
    cloud: lab.Session, bad: Callable[[lab.Session, str], None], after: int
) -> None:
    inventory = read_inventory(cloud.hosts_file)
    address = address_of(inventory, VICTIM)
    done = False

    def progress(count: int, _total: int) -> None:
        nonlocal done
        if count >= after and not done:
            done = True
            bad(cloud, address)

    # Trains would be over before the host is gone.
    result = measure(inventory, method=bulk(seconds=0.5), progress=progress, seed=1)
    assert done
    assert list(result.lost) == [VICTIM]
    assert not result.missing
    # The host was given up: no pair of it was waited for until it failed alone.
    assert not result.failures
    rest = [index for index, name in enumerate(HOSTS) if name != VICTIM]
    rates = result.history.beta_Bps[0][np.ix_(rest, rest)]
    assert np.isfinite(rates[~np.eye(len(rest), dtype=bool)]).all()


@pytest.mark.parametrize("method", ["train", bulk(seconds=0.5)], ids=["train", "bulk"])
def test_a_host_whose_interface_goes_down_is_waited_for_once(
    cloud: lab.Session, monkeypatch: pytest.MonkeyPatch, method: str | Method
) -> None:
    answers: list[Answer] = []

    def kept(*args: Any, **kwargs: Any) -> Iterator[Answer]:
        for answer in send(*args, **kwargs):
            answers.append(answer)
            yield answer

    monkeypatch.setattr(agents, "carry_out", kept)
    done = False

    def progress(count: int, _total: int) -> None:
        nonlocal done
        if count >= 9 and not done:
            done = True
            faults.unplug(cloud, VICTIM)

    result = measure(read_inventory(cloud.hosts_file), method=method, progress=progress, count=2, seed=1)
    assert done
    assert list(result.lost) == [VICTIM]
    assert "cannot reach each other" in result.lost[VICTIM]
    assert not result.failures
    rest = [index for index, name in enumerate(HOSTS) if name != VICTIM]
    rates = result.history.beta_Bps[:, rest][:, :, rest]
    assert np.isfinite(rates[:, ~np.eye(len(rest), dtype=bool)]).all()
    # The host that was sending to it found out at this moment; for all others it was gone already.
    waited = [answer for answer in answers if answer.target == VICTIM and answer.failure in OUT_OF_TOUCH]
    assert len(waited) <= 1
    assert all(answer.failure != pb.FAILURE_LATE for answer in answers)


def test_a_snapshot_after_the_loss_goes_without_the_host(cloud: lab.Session) -> None:
    inventory = read_inventory(cloud.hosts_file)
    blackhole(cloud, address_of(inventory, VICTIM))
    result = carry_out(plan_measurement(MeasureQuestion(inventory, count=2, again=True)))
    assert list(result.lost) == [VICTIM]
    assert not result.failures
    assert result.answered == 20


@pytest.mark.parametrize("bad", [kill, blackhole])
@pytest.mark.rare
def test_a_host_that_vanishes_does_not_end_the_experiments(
    few: lab.Session, bad: Callable[[lab.Session, str], None]
) -> None:
    inventory = read_inventory(few.hosts_file)
    history = measure(inventory).history
    done = False

    def progress(count: int, _known: int) -> None:
        nonlocal done
        if count and not done:
            done = True
            bad(few, address_of(inventory, VICTIM))

    with enrolled(inventory, Budget(max_bytes=0, max_seconds=300)) as fleet:
        result = measure_sharing(fleet, history, seed=1, progress=progress)
        assert list(fleet.missing | fleet.lost) == [VICTIM]
    others = [record for record in result.evidence if VICTIM not in {name for pair in record.pairs for name in pair}]
    assert {record.subject for record in others} >= {f"out of {name}" for name in FEW if name != VICTIM}


@pytest.mark.parametrize("bad", [kill, unplug, blackhole])
def test_a_host_that_vanishes_ends_a_run(cloud: lab.Session, bad: Callable[[lab.Session, str], None]) -> None:
    inventory = read_inventory(cloud.hosts_file)
    app = builders.app("one", ("x", "y", 1_000_000), ("x", "z", 500_000_000))
    placement = builders.placement({"x": "h0", "y": "h1", "z": VICTIM}, "one")
    with pytest.raises(AgentError, match=r"h0 to h3|agent on h3"):
        run(placement, [app], inventory, progress=lambda *_: bad(cloud, address_of(inventory, VICTIM)))


def test_an_agent_that_comes_back_is_taken_in_again(cloud: lab.Session) -> None:
    inventory = read_inventory(cloud.hosts_file)
    seen: list[int] = []

    def progress(count: int, _total: int) -> None:
        seen.append(count)
        if len(seen) == 9:
            faults.kill_agent(cloud, VICTIM)
        elif len(seen) == 20:
            faults.start_agent(cloud, VICTIM)

    result = measure(inventory, method=bulk(seconds=0.3), count=2, progress=progress, seed=1)
    assert not result.lost
    assert not result.missing
    assert not [failure for failure in result.failures if failure.snapshot == 1]
    assert np.isfinite(result.history.beta_Bps[1][~np.eye(len(HOSTS), dtype=bool)]).all()


@pytest.mark.parametrize("after", [3, 35], ids=["in the first snapshot", "in the second"])
def test_all_agents_gone_ends_the_measurement(cloud: lab.Session, tmp_path: Path, after: int) -> None:
    output, journal = tmp_path / "h.npz", tmp_path / "h.npz.partial"
    process = gavotte(
        "measure", "--hosts", cloud.hosts_file, "-o", output, "--count", "9", "--every", "20", "--seed", "1"
    )
    until(lambda: journal.exists() and journal.read_bytes().count(b'"at"') >= after)
    for host in HOSTS:
        faults.kill_agent(cloud, host)
    # None of 9 snapshots in 160 s is waited for.
    message = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "Traceback" not in message
    assert "fewer than two agents are left" in message.splitlines()[-1]
    if output.exists():
        assert np.isfinite(read_history(output).beta_Bps).any(axis=(1, 2)).all()


def test_a_measurement_that_lost_hosts_does_not_replace_one_that_has_them(cloud: lab.Session, tmp_path: Path) -> None:
    output = tmp_path / "h.npz"
    words = ("measure", "--hosts", str(cloud.hosts_file), "-o", str(output))
    gavotte(*words).communicate(timeout=60)
    before = output.read_bytes()
    faults.kill_agent(cloud, VICTIM)
    process = gavotte(*words)
    message = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert f"warning: {VICTIM}: " in message
    assert f"{output} was not changed" in message
    assert output.read_bytes() == before
    assert read_history(tmp_path / "h.lost.npz").answered == 20


@pytest.mark.rare
def test_experiments_that_lost_hosts_keep_earlier_evidence(few: lab.Session, tmp_path: Path) -> None:
    output = tmp_path / "h.npz"
    gavotte("measure", "--hosts", few.hosts_file, "--sharing", "-o", output).communicate(timeout=110)
    first = read_history(output)
    words = ("measure", "sharing", output, "--hosts", few.hosts_file)
    faults.kill_agent(few, VICTIM)
    process = gavotte(*words)
    message = process.communicate(timeout=110)[1]
    assert process.returncode == 0
    assert f"warning: lost {VICTIM}: " in message
    subjects = {record.subject for record in first.evidence}
    assert f"out of {VICTIM}" in subjects
    assert {record.subject for record in read_history(output).evidence} >= subjects
    before = output.read_bytes()
    for host in FEW:
        faults.kill_agent(few, host)
    process = gavotte(*words)
    assert "none of 4 agents can be used" in process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert output.read_bytes() == before


@pytest.mark.rare
def test_experiments_on_hosts_that_became_faster_end_and_keep_earlier_evidence(
    few: lab.Session, tmp_path: Path
) -> None:
    output = tmp_path / "h.npz"
    gavotte("measure", "--hosts", few.hosts_file, "--sharing", "-o", output).communicate(timeout=110)
    first = read_history(output)
    write_history(output, replace(first, beta_Bps=first.beta_Bps / 20))
    process = gavotte("measure", "sharing", output, "--hosts", few.hosts_file)
    message = process.communicate(timeout=110)[1]
    assert process.returncode == 0
    assert "warning: ended early: more bytes were needed than estimated" in message
    assert {r.subject for r in read_history(output).evidence} >= {r.subject for r in first.evidence}


def test_the_agents_of_a_killed_controller_are_free_again(
    cloud: lab.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inventory = read_inventory(cloud.hosts_file)
    journal = tmp_path / "h.npz.partial"
    process = gavotte("measure", "--hosts", cloud.hosts_file, "-o", tmp_path / "h.npz", "--count", "99")
    until(lambda: journal.exists() and b'"at"' in journal.read_bytes())
    with pytest.raises(BusyError, match=r"for \d+ s at most, and \d+ s if its controller is gone"):
        measure(inventory)
    assert any(line.startswith("waiting up to 6 s for the agents: ") for line in caplog.messages)
    process.kill()
    process.communicate()
    caplog.clear()
    # It waits for the lease of the killed one, and not for that one's 99 snapshots.
    assert measure(inventory).answered == 30
    left_s = re.search(r"and (\d+) s if its controller is gone$", caplog.messages[0])
    assert left_s is not None
    waits_s = [int(wait[1]) for line in caplog.messages if (wait := re.match(r"waiting up to (\d+) s ", line))]
    # On a busy machine, what is left of the lease may be shorter than the wait that was announced first.
    forsaken = any(line.endswith("; its controller no longer answers") for line in caplog.messages)
    assert forsaken or waits_s[0] > int(left_s[1])


@pytest.mark.parametrize(
    "verb", [(), ("calibrate", "--paths", "1", "--bulk-s", "0.5", "--bursts", "10", "--packets", "50")]
)
def test_a_user_takes_over_from_himself(verb: tuple[str, ...], cloud: lab.Session, tmp_path: Path) -> None:
    journal = tmp_path / "h.npz.partial"
    hosts = ("--hosts", cloud.hosts_file)
    first = gavotte("measure", *hosts, "-o", tmp_path / "h.npz", "--count", "999")
    until(lambda: journal.exists() and b'"at"' in journal.read_bytes())
    second = gavotte("measure", *verb, *hosts, "--take-over")
    output = second.communicate(timeout=60)[1]
    assert second.returncode == 0, output
    output = first.communicate(timeout=60)[1]
    assert "Traceback" not in output
    assert first.returncode == 1, output
    assert re.search(r"agent on \w+: run `\w+` has taken the agent over", output)


def test_an_agent_held_by_another_run_says_so(small_cloud: lab.Session, tmp_path: Path) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    with (
        enrolled(inventory, Budget(1 << 20, 60.0)) as fleet,
        pytest.raises(AgentError, match=f"agent on . refuses the run: held by run `{fleet.run_id}`"),
    ):
        carry_out(plan_measurement(MeasureQuestion(inventory)), MeasureSession(journal=tmp_path / "h.npz.partial"))
    # There are no answers, so there is no journal that the next call would have to continue.
    assert not list(tmp_path.iterdir())


def test_agents_that_another_run_lets_go_of_soon_are_waited_for(small_cloud: lab.Session) -> None:
    inventory = read_inventory(small_cloud.hosts_file)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with enrolled(inventory, Budget(1 << 20, 60.0)):
            held.set()
            time.sleep(1.5)
            done.set()

    other = threading.Thread(target=hold)
    other.start()
    try:
        assert held.wait(20)
        with enrolled(inventory, Budget(1 << 20, 60.0)) as fleet:
            assert done.is_set()
            assert len(fleet.hosts) == len(inventory.host)
    finally:
        other.join()


def gavotte(*arguments: str | Path, under: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen([*under, GAVOTTE, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_a_full_disk_is_one_line(small_cloud: lab.Session, tmp_path: Path) -> None:
    output = tmp_path / "h.npz"
    process = gavotte("measure", "--hosts", small_cloud.hosts_file, "-o", output, under=faults.full_disk(600))
    message = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    errors = [line for line in message.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "cannot be written: File too large" in errors[0]
    assert "Traceback" not in message
    assert not output.exists()
    # Earlier answers are kept, and can be continued.
    again = gavotte("measure", "--hosts", small_cloud.hosts_file, "-o", output, "--resume")
    assert again.communicate(timeout=60)[1]
    assert again.returncode == 0
    assert read_history(output).answered


@pytest.mark.rare
def test_paths_that_did_not_answer_replace_none_that_had(cloud: lab.Session, tmp_path: Path) -> None:
    output = tmp_path / "h.npz"
    arguments = ("measure", "--hosts", cloud.hosts_file, "-o", output, "--method", "bulk", "--seconds", "0.1")
    process = gavotte(*arguments)
    process.communicate(timeout=60)
    assert process.returncode == 0
    before = output.read_bytes()
    # Both hosts are well; only the path between them is gone.
    address = address_of(read_inventory(cloud.hosts_file), VICTIM)
    assert cloud.run("h0", ["ip", "route", "add", "blackhole", address]).returncode == 0
    process = gavotte(*arguments)
    message = process.communicate(timeout=90)[1]
    assert process.returncode == 1
    assert "was not changed" in message
    assert output.read_bytes() == before
    assert read_history(tmp_path / "h.lost.npz").answered


def test_a_killed_measurement_goes_on(small_cloud: lab.Session, tmp_path: Path) -> None:
    output = tmp_path / "h.npz"
    journal = tmp_path / "h.npz.partial"
    arguments = ("measure", "--hosts", small_cloud.hosts_file, "-o", output, "--count", "3")
    process = gavotte(*arguments)
    # Within the second snapshot: a head, the run, the start of two snapshots, 6 paths and 1 more.
    until(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= 11)
    os.kill(process.pid, signal.SIGSTOP)
    second = gavotte(*arguments, "--resume")
    message = second.communicate(timeout=60)[1]
    assert "is under way" in message
    assert second.returncode == 1
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert journal.exists()
    assert not output.exists()
    kept = journal.read_bytes().count(b'"at"')
    journal.write_bytes(journal.read_bytes() + b'{"at": [1, 2')
    resumed = gavotte(*arguments, "--resume", "--json")
    message = resumed.communicate(timeout=60)[1]
    assert resumed.returncode == 0, message
    assert not journal.exists()
    history = read_history(output)
    assert history.snapshots == 3
    assert 7 <= kept < 18
    assert np.isfinite(history.beta_Bps[:, ~np.eye(3, dtype=bool)]).all()
