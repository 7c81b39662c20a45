"""Any content of a journal is continued or refused in one line; no wrong value becomes an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.agents.played import inventory

from gavotte.errors import FormatError
from gavotte.formats.history import History, read_history, write_history
from gavotte.measure.adapt.results import Results
from gavotte.measure.carry.journal import Journal

HEAD = {"format": "gavotte/measuring/1", "hosts": ["a", "b"], "method": "train", "count": 1, "seed": 0}
READING = {"goodput_bps": 1e8, "low_bps": 9e7, "high_bps": None, "verdict": "path-limited"}
ENTRY = {"at": [0, 0, 1], "rtt_s": 1e-3, "hops": 3, "reading": READING, "idle_s": 1.0}


def gone_on_with(folder: Path, *entries: Any) -> Results:
    path = folder / "h.npz.partial"
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in (HEAD, *entries)))
    results = Results(inventory("ab"), "train", 1)
    Journal(path, results, seed=0, resume=True).close()
    return results


def test_what_was_written_is_read(tmp_path: Path) -> None:
    results = gone_on_with(tmp_path, {"snapshot": 0, "time_s": 1.0}, ENTRY)
    assert results.paths[0, 0, 1].reading.goodput_bps == 1e8


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY | {"reading": READING | {"goodput_bps": "fast"}},
        ENTRY | {"reading": READING | {"goodput_bps": [1.0]}},
        ENTRY | {"reading": READING | {"goodput_bps": -1.0}},
        ENTRY | {"reading": READING | {"goodput_bps": 10**400}},
        ENTRY | {"reading": READING | {"goodput_bps": 1e300}},
        ENTRY | {"reading": READING | {"bucket_bytes": float("inf")}},
        ENTRY | {"reading": READING | {"loss": True}},
        ENTRY | {"reading": READING | {"failure": -3}},
        ENTRY | {"reading": READING | {"verdict": 3}},
        ENTRY | {"reading": READING | {"failure": "none"}},
        ENTRY | {"reading": READING | {"refusal": 7}},
        ENTRY | {"rtt_s": 10**400},
        ENTRY | {"rtt_s": 1e308},
        ENTRY | {"rtt_s": -1.0},
        ENTRY | {"idle_s": -1e308},
        ENTRY | {"hops": float("inf")},
        ENTRY | {"hops": 10**99},
        ENTRY | {"hops": -5},
        ENTRY | {"hops": 256},
        ENTRY | {"at": [0, 0]},
        ENTRY | {"at": [0, 0, 0]},
        ENTRY | {"at": [0, 0, 2]},
        ENTRY | {"at": [0, -1, 1]},
        ENTRY | {"at": [1, 0, 1]},
        {"snapshot": float("inf"), "time_s": 1.0},
        {"snapshot": 1, "time_s": 1.0},
        {"snapshot": 0, "time_s": 10**400},
        {"snapshot": 0, "time_s": 1e300},
        {"snapshot": 0, "time_s": 0.5},
        "[" * 100_000,
        "7",
    ],
    ids=range(31),
)
def test_values_that_nobody_wrote_are_one_line(entry: Any, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="line 3: is damaged"):
        gone_on_with(tmp_path, {"snapshot": 0, "time_s": 1.0}, entry)


def test_what_is_gone_on_with_makes_a_history_that_is_read(tmp_path: Path) -> None:
    most = {"rtt_s": 1e9, "hops": 255, "idle_s": 1e9, "reading": READING | {"goodput_bps": 1e15, "jain": None}}
    results = gone_on_with(tmp_path, {"snapshot": 0, "time_s": 1.0}, ENTRY, ENTRY | {"at": [0, 1, 0]} | most)
    write_history(tmp_path / "h.npz", History.of_pairs(results.history()))
    assert read_history(tmp_path / "h.npz").answered == 2
