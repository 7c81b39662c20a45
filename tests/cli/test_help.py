"""Every help text as it is read, one file for all: after a change, renew with `make snapshots` and read the diff."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
import typer.rich_utils
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from gavotte.cli.verbs import app, outline


def verbs(command: object, *names: str) -> list[tuple[str, ...]]:
    """Return a command's name and those of all below it."""
    below: dict[str, object] = getattr(command, "commands", {})
    return [names, *(result for name, sub in below.items() for result in verbs(sub, *names, name))]


@pytest.mark.each_case
@pytest.mark.slow
@pytest.mark.parametrize("names", verbs(typer.main.get_command(app)), ids="-".join)
def test_help(names: tuple[str, ...], snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 100)
    monkeypatch.setattr(typer.rich_utils, "FORCE_TERMINAL", None)
    result = CliRunner().invoke(app, [*names, "--help"])
    assert "\n".join(line.rstrip() for line in result.output.splitlines()) == snapshot


def test_the_help_of_all_verbs_says_of_each_what_its_own_help_says() -> None:
    outlined = {command.name: command.help for command in outline().registered_commands}
    loaded = {name: sub.help or "" for name, sub in typer.main.get_command(app).commands.items()}  # type: ignore[attr-defined]
    assert outlined == {name: " ".join(text.partition("\n\n")[0].split()) for name, text in loaded.items()}


def test_the_help_of_all_verbs_loads_none_of_them() -> None:
    command = "import sys; from gavotte.cli import main; sys.argv[:] = ['gavotte', '--help']; main()"
    watched = f"import atexit, sys; atexit.register(lambda: print('numpy' in sys.modules)); {command}"
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, timeout=60, check=True)
    assert "Usage: gavotte" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
