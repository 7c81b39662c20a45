"""Bad input gives one line and exit status 1, wrong usage 2; never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

GAVOTTE = Path(sys.executable).with_name("gavotte")


def gavotte(*arguments: str | Path, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GAVOTTE, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        input=stdin,
        timeout=60,
        env={"GAVOTTE_RUNTIME_DIR": str(cwd / "run"), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("model", "missing.npz"), "missing.npz: no such file"),
        (("model", "bad.json"), "bad.json: is not a readable .npz archive"),
        (("place", "bad.json", "bad.json"), "bad.json: is not JSON"),
        (("place", "missing.json", "x"), "missing.json: no such file"),
        (("run", "missing.json", "x", "--hosts", "lab"), "missing.json: no such file"),
        (("measure", "--hosts", "lab"), "no lab is up"),
        (("measure", "--hosts", "bad.toml"), "bad.toml: is not TOML"),
        (("measure", "--hosts", "."), "cannot be read"),
        (("lab", "up", "bad.toml"), "bad.toml: is not TOML"),
        (("lab", "run", "missing.toml", "--", "true"), "missing.toml: no such file"),
        (("lab", "exec", "vm0", "--", "true"), "no lab is up"),
        (("profile", "pcap", "bad.json"), "bad.json"),
        (("profile", "pcap", "missing.pcap"), "missing.pcap"),
        (("demo", "--report", "no/such/folder.html"), "no such folder"),
        (("schema", "poem"), "choose one of"),
    ],
)
def test_bad_input_is_one_line_and_exit_1(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "bad.toml").write_text("= 1")
    result = gavotte(*arguments, cwd=tmp_path)
    assert said in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert result.returncode == 1


@pytest.mark.parametrize(
    "arguments",
    [("measure",), ("nonsense",), ("measure", "--hosts"), ("place", "--seed", "x", "a", "b"), ("lab", "fly")],
)
def test_wrong_usage_is_exit_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = gavotte(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_lab_status_and_down_without_a_lab(tmp_path: Path) -> None:
    assert json.loads(gavotte("lab", "status", "--json", cwd=tmp_path).stdout)["up"] is False
    assert json.loads(gavotte("lab", "down", "--json", cwd=tmp_path).stdout) == {"was_up": False}


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    script = f"{GAVOTTE} schema topology | head -n 1"
    result = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    assert result.stdout == "{\n"
    assert "Traceback" not in result.stderr


def test_version_and_help(tmp_path: Path) -> None:
    assert gavotte("--version", cwd=tmp_path).stdout.startswith("gavotte 0.1.0")
    assert "demo" in gavotte("--help", cwd=tmp_path).stdout
