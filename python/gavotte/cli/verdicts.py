"""Exit statuses and options of commands that compare: `campaign compare`, `compare` and `profile diff`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from gavotte.terms.equivalence import Verdict

STATUS: dict[Verdict, int] = {"alike": 0, "different": 3, "cannot tell": 4}
"""Exit status of each verdict. 1 is for bad input and 2 for wrong usage, so that no script takes them for a verdict."""

MOST_SHARE = 10.0
"""Largest margin, as a share: 1000 %."""

_SHARE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(%?)\s*")


def leave(verdict: Verdict) -> None:
    """End the command with the exit status of a verdict."""
    if STATUS[verdict]:
        raise typer.Exit(STATUS[verdict])


def share(text: str | float) -> float:
    """Read a share: `5%`, or 0.05. A whole number without a unit is refused, since it was probably meant in percent.

    Raises:
        BadParameter: for anything else, or more than `MOST_SHARE`.
    """
    match = _SHARE.fullmatch(str(text))
    value = float(match[1]) / (100 if match[2] else 1) if match else math.nan
    if match and not match[2] and value >= 1:
        raise typer.BadParameter(f"`{text}` has no unit: use {match[1]}%, or a share such as 0.05")
    if not value <= MOST_SHARE:
        raise typer.BadParameter(f"`{text}` is not a share of at most {100 * MOST_SHARE:g}%: use e.g. 5%")
    return value
