"""Lets the tests import their neighbour as `tests.profile.frames`, the name that mypy knows it by."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
