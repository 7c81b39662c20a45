"""Bad input gives one line and exit status 1, wrong usage 2; never a traceback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.shell import GAVOTTE, gavotte

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "words",
    [
        "model missing.npz",
        "model bad.json",
        "place bad.json bad.json",
        "place missing.json x",
        "run missing.json x --hosts lab",
        "measure --hosts lab",
        "measure --hosts bad.toml",
        "measure --hosts .",
        "lab up bad.toml",
        "lab run missing.toml -- true",
        "lab exec vm0 -- true",
        "profile pcap bad.json",
        "profile pcap missing.pcap",
        "demo --report no/such/folder.html",
        "schema poem",
    ],
)
def test_bad_input_is_one_line_and_exit_1(tmp_path: Path, words: str, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "bad.toml").write_text("= 1")
    result = gavotte(*words.split(), cwd=tmp_path)
    assert result.stderr == snapshot
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert result.returncode == 1


@pytest.mark.parametrize("words", ["measure", "nonsense", "measure --hosts", "place --seed x a b", "lab fly"])
def test_wrong_usage_is_exit_2(tmp_path: Path, words: str, snapshot: SnapshotAssertion) -> None:
    result = gavotte(*words.split(), cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == snapshot
    assert result.stdout == ""


def test_lab_status_and_down_without_a_lab(tmp_path: Path) -> None:
    assert json.loads(gavotte("lab", "status", "--json", cwd=tmp_path).stdout)["up"] is False
    assert json.loads(gavotte("lab", "down", "--json", cwd=tmp_path).stdout) == {"was_up": False}


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    script = f"{GAVOTTE} schema topology | head -n 1"
    result = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    assert result.stdout == "{\n"
    assert "Traceback" not in result.stderr
