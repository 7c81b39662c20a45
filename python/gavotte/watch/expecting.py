"""Keep the expected time of each pair's transfer, and calibrate it by measurement. The ring and the trees share it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gavotte.model.estimators import mode
from gavotte.watch.detect import Edge

Measure = Callable[[Collection[Edge]], Mapping[Edge, float]]
"""Function that measures the seconds of one transfer on each given pair, and leaves out pairs that do not answer. It
raises `BusyError` when another run holds the agents."""

REPEATS = 3
"""Measurements of each pair that is calibrated again; their median counts."""

WHOLE = 10
"""Snapshots of all pairs from which a whole new constant is learnt: the RPCA paper's time step, section V-C."""

MOVED = 0.10
"""Least relative difference after calibration, 0 to 1, that counts as a change of a pair's time."""


@dataclass(frozen=True)
class Shift:
    """A pair with a new constant: the expected seconds of its transfer. `before_s` is None if there was none."""

    source: str
    target: str
    before_s: float | None
    after_s: float


class Expected:
    """Expected seconds of one transfer of each pair.

    Attributes:
        seconds: expected seconds by pair.
        measure: measures some pairs; None = no agents can measure.
    """

    def __init__(self, seconds: Mapping[Edge, float], measure: Measure | None) -> None:
        self.seconds = dict(seconds)
        self.measure = measure

    def calibrated(self, pairs: Collection[Edge]) -> dict[Edge, float]:
        """Measure pairs `REPEATS` times and return the median seconds of each; pairs that never answer are left out."""
        heard: dict[Edge, list[float]] = {}
        for _ in range(REPEATS if self.measure is not None else 0):
            assert self.measure is not None
            for edge, seconds in self.measure(sorted(pairs)).items():
                heard.setdefault(edge, []).append(seconds)
        return {edge: float(np.median(seconds)) for edge, seconds in heard.items()}

    def shifted(self, measured_s: Mapping[Edge, float]) -> tuple[Shift, ...]:
        """Replace the expected times that are off the measured ones by more than `MOVED`, and return these pairs."""
        shifts = []
        for edge, after_s in sorted(measured_s.items()):
            before_s = self.seconds.get(edge)
            if before_s is None or abs(after_s / before_s - 1) > MOVED:
                shifts.append(Shift(*edge, before_s, after_s))
                self.seconds[edge] = after_s
        return tuple(shifts)

    def renewed(self, hosts: Sequence[str]) -> dict[Edge, float]:
        """Measure all pairs of some hosts `WHOLE` times and return the constant seconds of each.

        Pairs that never answered are left out.
        """
        at = {host: place for place, host in enumerate(hosts)}
        pairs = [(source, target) for source in hosts for target in hosts if source != target]
        times = np.full((WHOLE, len(hosts), len(hosts)), np.nan)
        for snapshot in times if self.measure is not None else ():
            assert self.measure is not None
            for (source, target), took_s in self.measure(pairs).items():
                snapshot[at[source], at[target]] = took_s
        if np.isnan(times).all():
            return {}
        constant = mode(times).constant
        seconds = {(source, target): float(constant[at[source], at[target]]) for source, target in pairs}
        return {edge: lasting_s for edge, lasting_s in seconds.items() if np.isfinite(lasting_s)}

    def replaced(self, measured_s: Mapping[Edge, float]) -> tuple[Shift, ...]:
        """Replace the expected times by the measured ones, whatever the difference, and return all these pairs."""
        shifts = tuple(Shift(*edge, self.seconds.get(edge), after_s) for edge, after_s in sorted(measured_s.items()))
        self.seconds.update(measured_s)
        return shifts

    def scaled(self, edge: Edge, factor: float) -> Shift:
        """Multiply the expected time of a pair by a factor."""
        before_s = self.seconds[edge]
        self.seconds[edge] = before_s * factor
        return Shift(*edge, before_s, before_s * factor)
