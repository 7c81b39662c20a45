"""How many bytes a measurement saw each host send."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests import builders

from gavotte.errors import FormatError
from gavotte.formats.history import read_history, write_history
from gavotte.model import model

SENT = np.array([[[np.nan, 3e6, 4e6], [1e6, np.nan, np.nan], [np.nan] * 3]])


def test_a_host_was_seen_to_send_what_its_paths_carried_in_one_snapshot() -> None:
    history = builders.history(np.full((2, 3, 3), 1e7), sent_bytes=np.concatenate([SENT, SENT / 2]))
    assert [host.seen_bytes for host in model(history).hosts] == [7e6, 1e6, None]


def test_sizes_below_zero_are_refused(tmp_path: Path) -> None:
    write_history(tmp_path / "h.npz", builders.history(np.full((1, 3, 3), 1e7), sent_bytes=-SENT))
    with pytest.raises(FormatError, match="sent_bytes"):
        read_history(tmp_path / "h.npz")
