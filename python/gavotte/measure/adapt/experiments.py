"""Experiments as parts of a measurement in progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gavotte.measure.adapt.events import Carried, Experiment, Steps
from gavotte.measure.adapt.overlap import Series
from gavotte.measure.plan.round_trips import RoundTrips
from gavotte.measure.plan.trials import Way
from gavotte.terms import Pair


class Experiments:
    """Source of instructions for experiments, which counts their bytes.

    Attributes:
        bytes_sent: payload so far.
        time_s: Unix time of the last one.
    """

    def __init__(self, *, trains: bool, round_trips: RoundTrips, time_s: float) -> None:
        """Create a source that has asked for no experiment yet.

        Args:
            trains: whether pairs without a common host send trains, not TCP.
            round_trips: round trips known so far, by which far pairs get more time.
            time_s: Unix time now.
        """
        self._trains = trains
        self._round_trips = round_trips
        self.bytes_sent = 0
        self.time_s = time_s

    def carry(
        self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], way: Way
    ) -> Steps[Mapping[Pair, Series]]:
        """Let pairs send at the same time; see `Carrier`."""
        event = yield Experiment(groups, expect_bps, way, self._trains, self._round_trips)
        assert isinstance(event, Carried)
        self.bytes_sent = event.bytes_sent
        self.time_s = event.moment.unix_s
        return event.series
