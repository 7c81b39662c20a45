"""Every help text as it is read, one file for all: after a change, renew with `make snapshots` and read the diff."""

from __future__ import annotations

import pytest
import typer
import typer.rich_utils
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from gavotte.cli.verbs import app


def verbs(command: object, *names: str) -> list[tuple[str, ...]]:
    """Return a command's name and those of all below it."""
    below: dict[str, object] = getattr(command, "commands", {})
    return [names, *(result for name, sub in below.items() for result in verbs(sub, *names, name))]


@pytest.mark.slow
@pytest.mark.parametrize("names", verbs(typer.main.get_command(app)), ids="-".join)
def test_help(names: tuple[str, ...], snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 100)
    monkeypatch.setattr(typer.rich_utils, "FORCE_TERMINAL", None)
    result = CliRunner().invoke(app, [*names, "--help"])
    assert "\n".join(line.rstrip() for line in result.output.splitlines()) == snapshot
