"""The controller's clock is set by 10 s several times during each verb: every verb is as right as without that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.builders import topology
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.history import read_history
from gavotte.formats.record import read_samples
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = [pytest.mark.lab, pytest.mark.rare, pytest.mark.timeout(180)]

CAPS_MBIT = {"a": 40, "b": 60, "c": 50}
SOURCE = Path(__file__).with_name("set_clock.c")
CAMPAIGN = """format = "gavotte/campaign/1"
name = "set"
seconds = 0.5
repetitions = 3
[driver]
kind = "ssh"
hosts = "{hosts}"
[[scenario]]
name = "one"
kind = "pair"
source = ["a"]
target = ["b"]
connections = [1]
"""


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    hosts = [{"name": name, "egress": f"{cap}mbit"} for name, cap in CAPS_MBIT.items()]
    with lab.session(topology(hosts), source="tests") as session:
        yield session


@pytest.fixture(scope="module")
def set_clock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of a program whose clock is set again and again."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("clock") / "set_clock.so"
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    return os.environ | {"LD_PRELOAD": str(library)}


def run(set_clock: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    done = gavotte(*words, env=set_clock)
    assert done.returncode == 0, done.stderr
    return done


def test_the_clock_of_the_program_is_set(set_clock: dict[str, str]) -> None:
    look = "import time\nfor _ in range(60): print(time.time() - time.monotonic()); time.sleep(0.02)"
    done = subprocess.run([sys.executable, "-c", look], env=set_clock, capture_output=True, text=True, check=True)
    ahead_s = np.array(done.stdout.split(), dtype=float)
    assert sorted(set(np.rint(ahead_s - ahead_s.min()).tolist())) == [0, 10, 20]


@pytest.mark.parametrize("method", ["train", "bulk"])
def test_rates_are_right(cloud: lab.Session, set_clock: dict[str, str], tmp_path: Path, method: str) -> None:
    output = tmp_path / "h.npz"
    words = ["--method", method, "--count", "3", "--json", "-o", str(output)]
    run(set_clock, "measure", "--hosts", cloud.hosts_file, *words)
    history = read_history(output)
    truth_bps = 1e6 * GOODPUT_PER_WIRE * np.array(list(CAPS_MBIT.values()))
    for beta_Bps in history.beta_Bps:  # noqa: N806
        off = ~np.eye(3, dtype=bool)
        assert (8 * beta_Bps / truth_bps[:, None])[off] == pytest.approx(1, rel=0.02)
    assert (np.diff(history.time_s) >= 0).all()


def test_transfers_take_as_long_as_their_bound(cloud: lab.Session, set_clock: dict[str, str], tmp_path: Path) -> None:
    source, matrix = tmp_path / "file", tmp_path / "bytes.csv"
    source.write_bytes(os.urandom(2_000_000))
    words = ["--from", "a", "-o", str(tmp_path / "copy-{host}"), "--json"]
    sent = json.loads(run(set_clock, "broadcast", source, "--hosts", cloud.hosts_file, *words).stdout)
    assert (tmp_path / "copy-c").read_bytes() == source.read_bytes()
    assert 0 < sent["elapsed_s"] < 10
    matrix.write_text("source,target,bytes\na,b,2000000\nb,c,2000000\nc,a,2000000\n")
    moved = json.loads(run(set_clock, "shuffle", matrix, "--hosts", cloud.hosts_file, "--json").stdout)
    assert moved["elapsed_s"] < 1.1 * moved["estimate_s"]


def test_guarantees_are_applied_and_removed(cloud: lab.Session, set_clock: dict[str, str], tmp_path: Path) -> None:
    wanted = tmp_path / "g.guarantee.toml"
    entries = "".join(f'[[guarantee]]\nhost = "{host}"\negress = "20mbit"\n' for host in "ab")
    wanted.write_text(f'format = "gavotte/guarantee/1"\n{entries}')
    hosts = ("--hosts", cloud.hosts_file)
    applied = run(set_clock, "guarantee", "apply", wanted, *hosts)
    assert "guarantees are enforced on 2 hosts" in applied.stderr
    assert "a" in run(set_clock, "guarantee", "status", *hosts).stdout
    run(set_clock, "guarantee", "clear", *hosts)


def test_samples_of_a_campaign_last_as_long_as_asked(
    cloud: lab.Session, set_clock: dict[str, str], tmp_path: Path
) -> None:
    study = tmp_path / "set.campaign.toml"
    study.write_text(CAMPAIGN.format(hosts=cloud.hosts_file))
    output = tmp_path / "r.jsonl"
    run(set_clock, "campaign", "run", study, "-o", output)
    samples = list(read_samples(output))
    assert len(samples) == 3
    truth_bps = CAPS_MBIT["a"] * 1e6 * GOODPUT_PER_WIRE
    assert [sample.value for sample in samples] == pytest.approx([truth_bps] * 3, rel=0.05)
