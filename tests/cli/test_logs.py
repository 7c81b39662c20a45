"""The log on stderr: nothing by default, each action with `-v`, each step with `-vv`, before or after the verb."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shell import gavotte

from gavotte.cli import logs
from gavotte.formats.inventory import FORMAT as HOSTS

pytestmark = pytest.mark.slow

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|DEBUG) gavotte(\.\w+)+: \S")


@pytest.fixture
def nobody(tmp_path: Path) -> str:
    """An inventory of one host whose agent is not up."""
    path = tmp_path / "one.hosts.toml"
    path.write_text(
        f'format = "{HOSTS}"\nhost = [{{ name = "a", address = "10.0.0.1", agent = "unix:/nowhere.sock" }}]\n'
    )
    return str(path)


@pytest.fixture
def quiet_again() -> Iterator[None]:
    yield
    logger = logging.getLogger("gavotte")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


def levels(stderr: str) -> set[str]:
    """Return the log's lines; the others are the verb's own."""
    return {match[1] for line in stderr.splitlines() if (match := LINE.match(line))}


def test_nothing_is_logged_by_default(nobody: str) -> None:
    assert levels(gavotte("hosts", "check", "--hosts", nobody).stderr) == set()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-v hosts check --hosts", {"INFO"}),
        ("hosts -v check --hosts", {"INFO"}),
        ("hosts check --verbose --hosts", {"INFO"}),
        ("hosts check -vv --hosts", {"INFO", "DEBUG"}),
    ],
)
def test_verbosity_may_stand_anywhere(nobody: str, words: str, expected: set[str]) -> None:
    quiet = gavotte("hosts", "check", "--hosts", nobody)
    loud = gavotte(*words.split(), nobody)
    assert levels(loud.stderr) == expected
    assert (loud.stdout, loud.returncode) == (quiet.stdout, quiet.returncode)
    assert "a: continuing without this host: its agent does not answer (nothing listens at /nowhere.sock" in loud.stderr


def test_what_is_passed_on_keeps_its_own_options(tmp_path: Path) -> None:
    assert levels(gavotte("lab", "exec", "a", "-vv", cwd=tmp_path).stderr) == set()


@pytest.mark.usefixtures("quiet_again")
def test_control_characters_are_never_raw(capsys: pytest.CaptureFixture[str]) -> None:
    logs.show(1)
    logs.show(1)
    logging.getLogger("gavotte.some.room").info("said %s", "\x1b[2Jhello\nINFO forged \u202e")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(r"said \x1b[2Jhello\nINFO forged \u202e")
