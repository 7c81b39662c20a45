"""Long work in a pipe: a line every ten seconds says what is done of how much; `GAVOTTE_NO_PROGRESS` turns it off."""

from __future__ import annotations

import ast
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from contextlib import AbstractContextManager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.shell import GAVOTTE, gavotte, until

from gavotte import cli, lab
from gavotte.cli import progress as bars

LONG = {
    "moving": ("broadcast", "run", "shuffle", "transfers", "queue"),
    "measuring": ("calibrate", "campaign", "cross", "hosts", "lab", "measure", "profile", "sharing", "watch"),
    "computing": ("collective", "demo", "guarantee", "map", "model", "place", "report", "sequence", "simulate"),
}
"""Modules of the verbs that may take long."""


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is printed meanwhile, with a line every 20 ms."""
    printed: list[str] = []
    monkeypatch.setattr(bars, "LINE_S", 0.02)
    monkeypatch.setattr(bars, "SEARCH_QUIET_S", 0.02)
    monkeypatch.setattr(bars, "note", printed.append)
    return printed


def after_a_line(lines: list[str], display: AbstractContextManager[Any], *amounts: Any) -> str:
    """Return a line that is printed after the work has reported these amounts."""
    with display as report:
        if amounts:
            report(*amounts)
        lines.clear()
        until(lambda: lines)
        return lines[-1]


@pytest.mark.parametrize(
    ("unit", "limit_s", "amounts", "shape"),
    [
        ("paths", None, (3, 12), r"measuring: 3 of 12 paths, \d+ s so far"),
        ("", None, (3, 12), r"measuring: 3 of 12, \d+ s so far"),
        (
            bars.BYTES,
            None,
            (2_000_000, 265_000_000),
            r"measuring: 2\.00 MB of 265 MB, \d+ s so far, .* [kMG]?bit/s so far",
        ),
        ("", 75.0, (), r"measuring: \d+ of about 75 s"),
        ("", 0.001, (), r"measuring: \d+ s so far, more than the expected 0 s"),
        ("paths", None, (), r"measuring: \d+ s so far"),
    ],
)
def test_a_line_says_how_much_is_done(
    lines: list[str], unit: str, limit_s: float | None, amounts: tuple[int, ...], shape: str
) -> None:
    line = after_a_line(lines, bars.progress("measuring", unit, limit_s=limit_s), *amounts)
    assert re.fullmatch(shape, line)


def test_what_was_learnt_is_shown(lines: list[str]) -> None:
    with bars.progress("measuring", "paths") as meter:
        meter(3, 12)
        meter.learnt("191 Mbit/s in the median")
        meter(4, 12)
        lines.clear()
        until(lambda: lines)
    assert lines[-1] == "measuring: 4 of 12 paths, 0 s so far, 191 Mbit/s in the median"


@pytest.mark.lab
@pytest.mark.parametrize("wide", [80, 200])
def test_a_terminal_shows_what_is_left_and_what_was_learnt(small_cloud: lab.Session, wide: int) -> None:
    inner, outer = pty.openpty()
    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, wide, 0, 0))
    words = [str(GAVOTTE), "measure", "--hosts", str(small_cloud.hosts_file), "--count", "3"]
    seen = b""
    own = {name: value for name, value in os.environ.items() if name != "GAVOTTE_NO_PROGRESS"} | {"TERM": "xterm"}
    with subprocess.Popen(words, stdin=outer, stdout=subprocess.DEVNULL, stderr=outer, env=own) as process:
        os.close(outer)
        with suppress(OSError):  # the other end is closed
            while part := os.read(inner, 65536):
                seen += part
        assert process.wait(60) == 0
    os.close(inner)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace"))
    assert re.search(r"\d+ of 18 paths", shown)
    assert wide < 100 or re.search(r"bit/s in the median, .* to .*bit/s", shown)


def test_work_that_reports_nothing_is_not_silent(lines: list[str]) -> None:
    with bars.progress("modelling"):
        until(lambda: len(lines) >= 3)
    count = len(lines)
    time.sleep(0.1)
    assert len(lines) == count  # no line after the end


def test_a_search_says_what_it_has_found(lines: list[str]) -> None:
    line = after_a_line(lines, bars.searching(60.0), 3.21, 2.9, 0.25)
    assert re.fullmatch(r"searching for up to 60 s, 25 % after \d+ s: best so far 3\.21 s, at least 2\.9 s", line)
    line = after_a_line(lines, bars.searching(60.0), float("inf"), 0.0, 0.25)
    assert line.endswith(": best so far none")


def test_a_watch_that_ends_prints_as_often_and_one_that_does_not_ever_more_rarely(lines: list[str]) -> None:
    assert after_a_line(lines, bars.sign_of_life("watching", ends=True), "3 of 9") == "watching: 3 of 9"
    assert after_a_line(lines, bars.sign_of_life("watching"), "3 so far") == "watching: 3 so far"


def test_pauses_of_an_endless_command_double_up_to_the_longest() -> None:
    assert list(islice(bars._rarer(), 9)) == [10, 20, 40, 80, 160, 320, 600, 600, 600]


def test_the_environment_turns_it_off(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAVOTTE_NO_PROGRESS", "1")
    with bars.progress("measuring") as report:
        report(1, 2)
        time.sleep(0.1)
    assert lines == []


@pytest.mark.parametrize("module", [each for modules in LONG.values() for each in modules])
def test_long_verbs_show_progress(module: str) -> None:
    tree = ast.parse((Path(cli.__file__).parent / f"{module}.py").read_text())
    opened = {
        each.context_expr.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for each in node.items
        if isinstance(each.context_expr, ast.Call) and isinstance(each.context_expr.func, ast.Name)
    }
    # The demo hands the function to its story.
    assert module == "demo" or opened & {"progress", "searching", "sign_of_life"}


@pytest.mark.rare
@pytest.mark.lab
def test_a_long_measurement_in_a_pipe_prints_lines(tmp_path: Path) -> None:
    """Twelve seconds of TCP on two paths: real packets, and a line after ten seconds."""
    topology = tmp_path / "t.topology.toml"
    hosts = "".join(f'[[host]]\nname = "{name}"\nswitch = "core"\nrate = "8mbit"\n' for name in "ab")
    topology.write_text(f'format = "gavotte/topology/1"\n[[switch]]\nname = "core"\n{hosts}')
    measuring = ["measure", "--hosts", "lab", "--method", "bulk", "--seconds", "12"]
    done = gavotte("lab", "run", topology, "--", GAVOTTE, *measuring)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^measuring: [0-2] of 2 paths, 1\d s so far$", done.stderr, re.MULTILINE)
    assert "bit/s" in done.stdout
