"""Shorten host names for labels of pictures and headings of tables."""

from __future__ import annotations

from collections.abc import Sequence

LETTERS = 24
"""Most letters of a label; longer names are shortened in the middle."""


def shortened(names: Sequence[str]) -> list[str]:
    """Return shorter names for labels, at most `LETTERS` letters each.

    1. The domain that all names share is removed.
    2. If a name is still longer than `LETTERS`, the first letters that all share are removed.
    3. A name that is still longer loses its middle.
    """
    parts = [name.split(".") for name in names]
    while len(parts) > 1 and min(map(len, parts)) > 1 and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]
    short = [".".join(each) for each in parts]
    if max(map(len, short)) > LETTERS:
        same = next((k for k, letters in enumerate(zip(*short, strict=False)) if len(set(letters)) > 1), 0)
        short = [f"…{name[same:]}" for name in short] if same > 1 else short
    half = LETTERS // 2
    return [name if len(name) <= LETTERS else f"{name[: half - 1]}…{name[-half:]}" for name in short]
