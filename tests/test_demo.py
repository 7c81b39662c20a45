"""The demo end to end, and the state after it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shell import GAVOTTE, gavotte, processes_of, until

from gavotte.agents.runtime import RUNTIME_DIR_VARIABLE

pytestmark = pytest.mark.lab


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder that only the demo under test uses."""
    with tempfile.TemporaryDirectory(prefix="gvt-", dir="/tmp") as made:
        monkeypatch.setenv(RUNTIME_DIR_VARIABLE, made)
        yield Path(made)


def test_the_demo(tmp_path: Path, folder: Path) -> None:
    result = gavotte("demo", "--json", "--seed", "7", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["paths"], document["answered"], document["seed"]) == (90, 90, 7)
    assert document["measure_s"] > 0
    methods = [placement["method"] for placement in document["placements"]]
    assert methods == ["auto", "greedy", "random", "round-robin", "min-machines"]
    for placement in document["placements"]:
        # The prediction is a lower bound of both, up to buckets and measurement error.
        assert placement["simulated_s"] > 0.999 * placement["predicted_s"] > 0
        assert placement["measured_s"] > 0.8 * placement["predicted_s"]
    assert set(document["gain_over_baselines"]) == {"auto", "greedy"}
    assert min(document["gain_over_baselines"].values()) > 0
    page = (tmp_path / "gavotte-demo.html").read_text()
    assert page.count('aria-label="Placement by') == 5
    assert not list(folder.glob("**/*.sock"))


@pytest.mark.parametrize("after_s", [0.5, 1.2, 2.5, 5.0])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_demo_leaves_nothing(tmp_path: Path, folder: Path, how: signal.Signals, after_s: float) -> None:
    marker = f"GAVOTTE_TEST_MARK={tmp_path}"
    key, _, value = marker.partition("=")
    child = subprocess.Popen(
        [GAVOTTE, "demo", "--report", str(tmp_path / "r.html")],
        env=os.environ | {key: value},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(after_s)
    child.send_signal(how)
    _, stderr = child.communicate(timeout=30)
    assert child.returncode != 0
    assert "Traceback" not in stderr
    until(lambda: not processes_of(marker))
    assert not (tmp_path / "r.html").exists()
    # The next call removes the leftover folders.
    gavotte("lab", "status")
    assert not list(folder.glob("**/*.sock"))


@pytest.mark.rare
def test_the_table_of_the_demo(tmp_path: Path, folder: Path) -> None:
    ran = gavotte("demo", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    header, *rows = [line.split() for line in ran.stdout.splitlines() if line.strip()]
    assert header == ["placement", "predicted", "simulated", "measured"]
    assert [row[0] for row in rows] == ["auto", "greedy", "random", "round-robin", "min-machines"]
    assert all(row[2::2] == ["s", "s", "s"] and len(row) == 7 for row in rows)
    assert (tmp_path / "gavotte-demo.html").exists()
