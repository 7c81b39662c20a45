"""Orders of host names into which launchers bring the hosts of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cmp_to_key

_RUNS = re.compile(r"[0-9]+|[^0-9]")


def c10d_order(hosts: Sequence[str]) -> list[str]:
    """Return hosts as torchrun's c10d rendezvous sorts them: as strings, so that `n10` precedes `n9`."""
    return sorted(hosts)


def slurm_order(hosts: Sequence[str]) -> list[str]:
    """Return hosts as Slurm sorts them: by the numbers in their names, so that `n9` precedes `n10`.

    Slurm's rules are those of `hostrange_cmp` in `src/common/hostlist.c` of its version 22.05:

    1. The text before the number at the end decides, with its own numbers compared as numbers.
    2. A name without a number at its end precedes the same text with one.
    3. The numbers at the end decide, if both names could be of one list of numbers with equally many digits: 08 and 10.
       Otherwise the shorter number precedes: 9 and 08.
    """
    return sorted(hosts, key=cmp_to_key(_compared))


def _compared(one: str, other: str) -> int:
    """Return a negative number if Slurm sorts the first name before the second, a positive one if after it."""
    (prefix, number), (other_prefix, other_number) = _parts(one), _parts(other)
    if order := _natural(prefix, other_prefix):
        return order
    if not number or not other_number:
        return len(number) - len(other_number)
    widths = len(number), len(other_number)
    if _padding(number, widths[0]) != _padding(number, widths[1]) and (
        _padding(other_number, widths[0]) != _padding(other_number, widths[1])
    ):
        return widths[0] - widths[1]
    return int(number) - int(other_number)


def _parts(name: str) -> tuple[str, str]:
    """Return a name's text and the number at its end."""
    number = re.search("[0-9]*$", name)
    digits = number.group() if number else ""
    return name[: len(name) - len(digits)], digits


def _padding(number: str, width: int) -> int:
    """Return how many zeros fill a number to a width."""
    return max(width - len(str(int(number))), 0)


def _natural(one: str, other: str) -> int:
    """Compare texts as `strnatcmp` does: numbers by their value, or digit by digit if one begins with 0."""
    runs, others = _RUNS.findall(one), _RUNS.findall(other)
    for run, against in zip(runs, others, strict=False):
        mine, theirs = (0, run), (0, against)
        if run.isdigit() and against.isdigit() and "0" not in (run[0], against[0]):
            mine, theirs = (len(run), run), (len(against), against)
        if mine != theirs:
            return -1 if mine < theirs else 1
    return len(runs) - len(others)


NAME_ORDERS = {"c10d": c10d_order, "slurm": slurm_order}
"""Launchers that sort hosts by name, and how."""
