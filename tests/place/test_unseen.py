"""Warnings of hosts that send more bytes than their rates were measured for."""

from __future__ import annotations

from typing import Any

import pytest
from tests import builders
from tests.builders import MBIT

from gavotte.place import Effort, Question, decide

MB = 1_000_000


def warnings(size: int, **host: Any) -> list[str]:
    fields = {"egress_bps": 80 * MBIT, "seen_bytes": 1.0 * MB, **host}
    network = builders.network([{"name": name, "cpus": 1, **fields} for name in "ab"])
    app = builders.app("one", ("s", "t", size))
    return decide(Question(network, [app]), Effort(time_limit_s=1.0)).warnings


def test_a_host_that_sends_more_than_was_measured_is_named() -> None:
    (line,) = warnings(40 * MB)
    assert "sends 40.0 MB" in line
    assert "1.00 MB only" in line
    assert "--sustain 4" in line


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
