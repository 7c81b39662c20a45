"""Warnings of hosts that send more bytes than their rates were measured for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.builders import MBIT
from typer.testing import CliRunner

from gavotte.cli.verbs import app as command
from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network, write_network
from gavotte.place import Effort, Question, decide

MB = 1_000_000


def inputs(size: int, **host: Any) -> tuple[Network, App]:
    fields = {"egress_bps": 80 * MBIT, "seen_bytes": 1.0 * MB, **host}
    network = builders.network([{"name": name, "cpus": 1, **fields} for name in "ab"])
    return network, builders.app("one", ("s", "t", size))


def warnings(size: int, **host: Any) -> list[str]:
    network, app = inputs(size, **host)
    return decide(Question(network, [app]), Effort(time_limit_s=1.0)).warnings


def test_a_host_that_sends_more_than_was_measured_is_named() -> None:
    (line,) = warnings(40 * MB)
    assert "sends 40.0 MB" in line
    assert "1.00 MB only" in line
    assert "--sustain 4" in line


def test_scripts_read_the_same_warning(tmp_path: Path) -> None:
    network, app = inputs(40 * MB)
    write_network(tmp_path / "n.network.json", network)
    write_app(tmp_path / "a.app.toml", app)
    files = [str(tmp_path / name) for name in ("n.network.json", "a.app.toml")]
    result = CliRunner().invoke(command, ["place", *files, "--json", "--time-limit", "1"])
    assert json.loads(result.stdout)["warnings"] == warnings(40 * MB)


@pytest.mark.parametrize(
    ("size", "host"),
    [
        (5 * MB, {}),
        (40 * MB, {"seen_bytes": 50.0 * MB}),
        (40 * MB, {"seen_bytes": None}),
        (40 * MB, {"burst_bytes": 300_000.0, "peak_bps": 100 * MBIT}),
        (40 * MB, {"burst_bytes": 10.0 * MB, "peak_bps": 100 * MBIT}),
    ],
    ids=["half a second", "measured for more", "unknown", "the bucket was emptied", "the credit is known"],
)
def test_no_other_host_is_named(size: int, host: dict[str, Any]) -> None:
    assert warnings(size, **host) == []
