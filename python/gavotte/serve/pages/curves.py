"""Draw values over time as an SVG curve: the paths and labels that the template needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gavotte.formats.parts.times import utc, utc_within

WIDTH, HEIGHT = 900, 240
LEFT, RIGHT, TOP, BOTTOM = 76, 14, 12, 26
"""Size of the picture and of its margins, in pixels."""
DOTS = 200
"""Most points of a curve that are drawn as dots, each with a text."""
LINES = 5
"""Approximate number of lines that mark values."""

Value = float | None


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes:
        name: its name in the legend.
        values: one for each time; None = not known.
        style: the class of its colour: `measured`, `simulated` or `received`.
        low: lower ends of a band around other values; empty = no band.
        high: upper ends of it.
    """

    name: str
    values: Sequence[Value]
    style: str = "measured"
    low: Sequence[Value] = ()
    high: Sequence[Value] = ()


@dataclass(frozen=True)
class Drawn:
    """One curve as it is drawn: its path, its band, and its dots as x, y and text."""

    name: str
    style: str
    path: str
    band: str
    dots: list[tuple[float, float, str]]


@dataclass(frozen=True)
class Curve:
    """A picture of curves.

    Attributes:
        title: its caption, and its text for screen readers.
        lines: the curves.
        rows: heights of the lines that mark values, with their texts.
        columns: places of the marks of time, with their texts.
    """

    title: str
    lines: list[Drawn]
    rows: list[tuple[float, str]]
    columns: list[tuple[float, str]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


@dataclass(frozen=True)
class Axis:
    """Scale of a picture: `least` is at pixel `begin`, and `most` at pixel `end`; a line marks each `step`."""

    least: float
    most: float
    begin: float
    end: float
    step: float = 0.0

    def at(self, value: float) -> float:
        """Return the place of a value, in pixels."""
        span = self.most - self.least
        return self.begin + (self.end - self.begin) * ((value - self.least) / span if span > 0 else 0.5)


def curve(title: str, times_s: Sequence[float], lines: Sequence[Line], unit: str) -> Curve | None:
    """Return a picture of values over time; None if there are no two times with values.

    Args:
        title: its caption.
        times_s: Unix times, ascending.
        lines: the curves, in one unit.
        unit: this unit, for the labels.
    """
    numbers = [each for line in lines for each in (*line.values, *line.low, *line.high) if each is not None]
    if len(times_s) < 2 or not numbers:
        return None
    x = Axis(times_s[0], times_s[-1], LEFT, WIDTH - RIGHT)
    y = _values_axis(min(0.0, *numbers), max(numbers))
    return Curve(
        title,
        [_drawn(line, times_s, x, y, unit) for line in lines],
        [(round(y.at(value), 1), f"{_rounded(value)} {unit}".strip()) for value in _marks(y)],
        [(round(x.at(time_s), 1), utc_within(time_s, x.most - x.least)) for time_s in _columns(x)],
    )


def _drawn(line: Line, times_s: Sequence[float], x: Axis, y: Axis, unit: str) -> Drawn:
    points = [
        None if value is None else (round(x.at(time_s), 1), round(y.at(value), 1))
        for time_s, value in zip(times_s, line.values, strict=True)
    ]
    dots = [
        (*point, f"{line.name}: {_rounded(value)} {unit}\n{utc(time_s)}")
        for point, value, time_s in zip(points, line.values, times_s, strict=True)
        if point is not None and value is not None
    ]
    ends = [
        (x.at(time_s), y.at(low), y.at(high))
        for time_s, low, high in zip(times_s, line.low, line.high, strict=False)
        if low is not None and high is not None
    ]
    outline = [(at, high) for at, _, high in ends] + [(at, low) for at, low, _ in reversed(ends)]
    band = "M" + " L".join(f"{at:.1f} {height:.1f}" for at, height in outline) + "Z" if len(ends) > 1 else ""
    return Drawn(line.name, line.style, _path(points), band, dots if len(dots) <= DOTS else [])


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    """Return a path through the points, with a gap where one is missing."""
    parts, broken = [], True
    for point in points:
        if point is not None:
            parts.append(f"{'M' if broken else 'L'}{point[0]} {point[1]}")
        broken = point is None
    return " ".join(parts)


def _values_axis(least: float, most: float) -> Axis:
    """Return an axis from one round value to another."""
    span = most - least or abs(most) or 1.0
    raw = span / LINES
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    return Axis(math.floor(least / step) * step, math.ceil(most / step - 1e-9) * step, HEIGHT - BOTTOM, TOP, step)


def _marks(y: Axis) -> list[float]:
    return [y.least + number * y.step for number in range(round((y.most - y.least) / y.step) + 1)]


def _columns(x: Axis) -> list[float]:
    return [x.least + (x.most - x.least) * share for share in (0.0, 0.5, 1.0)]


def _rounded(value: float) -> str:
    return f"{value:.4g}"
