"""Traces for other simulators: GOAL of LogGOPSim and ATLAHS, and SimGrid's time-independent traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gavotte.formats.trace import MpiTrace
from gavotte.profile.traces.goal import goal_lines
from gavotte.profile.traces.smpi import smpi_lines

TRACE_FORMATS: dict[str, Callable[[MpiTrace], Iterator[str]]] = {"goal": goal_lines, "smpi": smpi_lines}
"""Formats by name, each a function from a trace to the lines of a file."""
