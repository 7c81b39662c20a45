"""A matrix as a picture of coloured cells: colours, labels and what hovering tells, for the page's template."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import Floats, Ints

VIRIDIS = ("440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725")
"""Perceptually even and readable by the colour-blind (matplotlib's, in nine steps)."""
UNKNOWN = (221, 221, 221)

WIDTH_PX = 960
CELL_PX = (2.0, 36.0)
"""Of one cell, at least and at most."""
NUMBERED_PX = 28.0
"""Cells of this size have room for their number."""
LABEL_PX = 12.0
"""From one label to the next; of smaller cells only some are labelled."""
LETTER_PX = 6.7
"""Of the labels' monospace letters at 11 pixels."""
LETTERS = 24
"""Longer names are shortened in the middle."""
HOVERED = 400
"""Rows of the largest matrix whose cells tell more when hovered over: its numbers fill the page."""


@dataclass(frozen=True)
class Layer:
    """One line of the text that appears when the reader hovers over a cell.

    Attributes:
        label: name of the value.
        values: of all cells, row by row; None = not known.
        high: upper ends where `values` are the lower ones.
        unit: of both.
        words: what the values stand for, where they are numbers of words.
    """

    label: str
    values: list[float | None] | list[int]
    high: list[float | None] | None = None
    unit: str = ""
    words: Sequence[str] = ()


@dataclass(frozen=True)
class Grid:
    """A picture of a matrix; lengths in pixels.

    Attributes:
        names: of rows and columns, shortened.
        image: its colours as a PNG, one pixel a cell, as a data URI.
        unit: of its numbers.
        ticks: where along the scale of colours, 0 to 1, which text stands.
        cell: side of a cell.
        margin: left and above, for the labels.
        step: every how many names are labelled.
        numbers: x, y, text and colour of the cells' numbers, none in small cells.
        doubtful: an SVG path that marks the corner of doubtful cells.
        unknown: whether cells are without a value.
        hover: what the page's script reads; None where there are too many cells.
    """

    names: list[str]
    image: str
    unit: str
    ticks: list[tuple[float, str]]
    cell: float
    margin: float
    step: int
    numbers: list[tuple[float, float, str, str]]
    doubtful: str
    unknown: bool
    hover: dict[str, Any] | None = field(repr=False)


def grid(
    names: Sequence[str],
    values: Floats,
    unit: str,
    *,
    layers: Sequence[Layer] = (),
    doubtful: npt.NDArray[np.bool_] | None = None,
    empty: tuple[int, int, int] = UNKNOWN,
) -> Grid:
    """Draws a matrix on a logarithmic scale, since pairs inside one machine are often ten times faster than all others.

    Args:
        names: N of them.
        values: (N, N), row = source, NaN = none.
        unit: of the values.
        layers: lines of the text that appears over each cell.
        doubtful: (N, N) cells to mark.
        empty: colour of cells without a value.
    """
    size = len(names)
    short = shortened(names)
    margin = LETTER_PX * max(map(len, short)) + 10
    cell = float(np.clip((WIDTH_PX - margin) / size, *CELL_PX))
    off_diagonal = ~np.eye(size, dtype=bool)
    known = values[np.isfinite(values) & off_diagonal]
    low, high = (float(known.min()), float(known.max())) if known.size else (1.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.log(values / low) / np.log(high / low) if high > low else np.where(np.isnan(values), np.nan, 0.5)
    colours = np.where(np.isnan(share)[..., None], empty, coloured(np.nan_to_num(share), VIRIDIS))
    colours[~off_diagonal] = 255
    numbers = []
    if cell >= NUMBERED_PX:
        for i, j in np.argwhere(np.isfinite(values) & off_diagonal).tolist():
            ink = "#fff" if share[i, j] < 0.6 else "#000"
            numbers.append(((j + 0.5) * cell, (i + 0.5) * cell + 3, number(float(values[i, j])), ink))
    marked = np.argwhere(off_diagonal & (np.zeros_like(off_diagonal) if doubtful is None else doubtful))
    side = min(10.0, cell / 2)
    corner = f"h{-side:.4g}l{side:.4g} {side:.4g}z"
    ticks = [(k / 4, number(low * (high / low) ** (k / 4))) for k in range(5)] if high > low else [(0.5, number(low))]
    hover = None
    if layers and size <= HOVERED:
        hover = {"names": list(names), "cell": cell, "left": margin, "layers": [vars(line) for line in layers]}
    return Grid(
        names=short,
        image=_png(colours.astype(np.uint8)),
        unit=unit,
        ticks=ticks if known.size else [],
        cell=cell,
        margin=margin,
        step=max(1, int(np.ceil(LABEL_PX / cell))),
        numbers=numbers,
        doubtful="".join(f"M{(j + 1) * cell:.5g} {i * cell:.5g}{corner}" for i, j in marked.tolist()),
        unknown=bool((np.isnan(values) & off_diagonal).any()),
        hover=hover,
    )


def shortened(names: Sequence[str]) -> list[str]:
    """The names without the domain that all share; long ones without their first letters in common, or their middle."""
    parts = [name.split(".") for name in names]
    while len(parts) > 1 and min(map(len, parts)) > 1 and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]
    short = [".".join(each) for each in parts]
    if max(map(len, short)) > LETTERS:
        same = next((k for k, letters in enumerate(zip(*short, strict=False)) if len(set(letters)) > 1), 0)
        short = [f"…{name[same:]}" for name in short] if same > 1 else short
    half = LETTERS // 2
    return [name if len(name) <= LETTERS else f"{name[: half - 1]}…{name[-half:]}" for name in short]


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{float(f'{value:.3g}'):.9g}"


def layer_values(values: Floats) -> list[float | None]:
    """All cells row by row with four significant digits, which the page's script reads."""
    return [None if np.isnan(value) else float(f"{value:.4g}") for value in values.ravel().tolist()]


def coloured(share: Floats, palette: Sequence[str]) -> Ints:
    """(..., 3) red, green and blue of shares from 0 to 1."""
    steps = np.array([[int(colour[k : k + 2], 16) for k in (0, 2, 4)] for colour in palette])
    at = np.linspace(0, 1, len(palette))
    return np.stack([np.interp(share, at, steps[:, k]) for k in range(3)], axis=-1).astype(np.int64)


def _png(pixels: npt.NDArray[np.uint8]) -> str:
    """A data URI of (height, width, 3) pixels."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = (
        (b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
