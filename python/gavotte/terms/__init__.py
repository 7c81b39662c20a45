"""Words that mean the same in every room, and what several rooms must compute alike.

The words themselves are explained in docs/reference/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable

Pair = tuple[int, int]
"""(source, target) as host indices."""

Progress = Callable[[int, int], None]
"""Called as work goes on, with how much is done and how much there is in all."""
