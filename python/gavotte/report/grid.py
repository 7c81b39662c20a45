"""Draw a matrix as coloured cells: the colours, labels and hover texts that the page's template needs."""

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
from gavotte.terms.labels import shortened

VIRIDIS = ("440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725")
"""Palette of nine colours, dark to light: matplotlib's viridis, perceptually even and readable by the colour-blind."""
UNKNOWN = (128, 128, 128, 69)
"""Colour of cells without a value: red, green, blue and opacity. It is grey on white and on black pages."""
CLEAR = (0, 0, 0, 0)
"""Colour of the diagonal, and of empty cells: the page's own."""

WIDTH_PX = 960
CELL_PX = (2.0, 36.0)
"""Smallest and largest side of a cell."""
NUMBERED_PX = 28.0
"""Smallest side of a cell in which its number is printed."""
LABEL_PX = 12.0
"""Distance from one label to the next. If cells are smaller, only some rows and columns are labelled."""
LETTER_PX = 6.7
"""Width of a letter of the labels, which are monospace at 11 pixels."""
HOVERED = 400
"""Most rows of a matrix with hover texts. The numbers of a larger one would make the page too big."""


@dataclass(frozen=True)
class Layer:
    """One line of the text that appears when the reader hovers over a cell.

    Attributes:
        label: name of the value.
        values: values of all cells, row by row; None = not known.
        high: upper ends of intervals whose lower ends are `values`; None = no intervals.
        unit: unit of both.
        words: the texts that `values` are indices into; empty = `values` are numbers.
    """

    label: str
    values: list[float | None] | list[int]
    high: list[float | None] | None = None
    unit: str = ""
    words: Sequence[str] = ()


@dataclass(frozen=True)
class Grid:
    """A square matrix as a picture of coloured cells; lengths in pixels.

    Attributes:
        names: shortened names of rows and columns.
        image: the cells' colours as a PNG, one pixel a cell, as a data URI.
        unit: unit of the numbers.
        ticks: (position, text) of the labels on the colour scale; positions from 0 to 1.
        cell: side of a cell.
        margin: space for the labels, on the left and above.
        step: every this many names, one is labelled.
        numbers: x, y, text and colour of each cell's number; empty when cells are small.
        doubtful: an SVG path that marks the corner of doubtful cells.
        unknown: whether any cell off the diagonal has no value.
        hover: data of the hover texts for the page's script; None = no layers, or more than `HOVERED` rows.
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
    empty: tuple[int, int, int, int] = UNKNOWN,
) -> Grid:
    """Draw a matrix with colours on a logarithmic scale.

    Pairs inside one machine are often ten times faster than all others, so a linear scale would hide differences.

    Args:
        names: N names of rows and columns.
        values: (N, N), row = source, NaN = no value.
        unit: unit of the values.
        layers: lines of the text that appears when the reader hovers over a cell.
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
    opaque = np.full((size, size, 1), 255)
    colours = np.concatenate([coloured(np.nan_to_num(share), VIRIDIS), opaque], axis=-1)
    colours = np.where(np.isnan(share)[..., None], empty, colours)
    colours[~off_diagonal] = CLEAR
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


def number(value: float) -> str:
    """Return a number as text with three significant digits, without an exponent."""
    return f"{float(f'{value:.3g}'):.9g}"


def layer_values(values: Floats) -> list[float | None]:
    """Return all cells, row by row, with four significant digits for the page's script; None = NaN."""
    return [None if np.isnan(value) else float(f"{value:.4g}") for value in values.ravel().tolist()]


def coloured(share: Floats, palette: Sequence[str]) -> Ints:
    """Return the colour at each share, 0 to 1, of a palette: (..., 3) red, green and blue from 0 to 255."""
    steps = np.array([[int(colour[k : k + 2], 16) for k in (0, 2, 4)] for colour in palette])
    at = np.linspace(0, 1, len(palette))
    return np.stack([np.interp(share, at, steps[:, k]) for k in range(3)], axis=-1).astype(np.int64)


def _png(pixels: npt.NDArray[np.uint8]) -> str:
    """Return (height, width, 4) pixels, whose last number is the opacity, as a PNG in a data URI."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = (
        (b"IHDR", struct.pack(">2I5B", width, height, 8, 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
