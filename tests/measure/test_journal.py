"""A journal with anything in it is gone on with or refused in one line; nothing wrong gets into the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.agents.played import inventory

from gavotte.errors import FormatError
from gavotte.measure.journal import Journal
from gavotte.measure.results import Results

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
        ENTRY | {"reading": READING | {"verdict": 3}},
        ENTRY | {"reading": READING | {"failure": "none"}},
        ENTRY | {"reading": READING | {"refusal": 7}},
        ENTRY | {"rtt_s": 10**400},
        ENTRY | {"hops": float("inf")},
        ENTRY | {"at": [0, 0]},
        {"snapshot": float("inf"), "time_s": 1.0},
        {"snapshot": 0, "time_s": 10**400},
        "[" * 100_000,
        "7",
    ],
    ids=range(14),
)
def test_values_of_a_wrong_kind_are_one_line(entry: Any, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="line 2: is damaged"):
        gone_on_with(tmp_path, entry)
