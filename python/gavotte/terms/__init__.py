"""Definitions and computations that all other packages of Gavotte share.

docs/reference/glossary.md explains the terms.
"""

from __future__ import annotations

from collections.abc import Callable

Pair = tuple[int, int]
"""(source, target) as host indices."""

Progress = Callable[[int, int], None]
"""Callback that is called during work, with the amount done and the total amount."""
