"""Allowed names for `-o`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.played import inventory
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.errors import GavotteError
from gavotte.formats.inventory import write_inventory


@pytest.mark.parametrize("name", ["x.csv", "x.JSON", "x.parquet"])
def test_a_name_of_another_format_is_refused_before_anything_is_sent(tmp_path: Path, name: str) -> None:
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, inventory(["a", "b"]))
    run = CliRunner().invoke(app, ["measure", "--hosts", str(hosts), "-o", str(tmp_path / name), "--dry-run"])
    assert isinstance(run.exception, GavotteError)
    assert f"{name}: a History is written as .npz" in str(run.exception)
    assert not (tmp_path / name).exists()
