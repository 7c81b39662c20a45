"""Bulk TCP on several pairs at once, with a number of connections each."""

from __future__ import annotations

from collections.abc import Mapping

from gavotte.agents.schedule import Step
from gavotte.measure.adapt.events import Answered, SendRounds, Steps
from gavotte.measure.adapt.spending import Spending
from gavotte.measure.adapt.withheld import Gap, find_gap
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.path_plan import PathPlan
from gavotte.terms import Pair


class TcpSteps:
    """Source of instructions for the steps of a `Widening`, which counts their bytes and seconds.

    Attributes:
        gaps: pairs with a step during which a host kept its agent from running.
    """

    def __init__(self, plan: PathPlan, spending: Spending, size: int) -> None:
        """Create a source that has asked for no step yet.

        Args:
            plan: plan of the measurement.
            spending: bytes and seconds of the measurement so far.
            size: bytes of each pair and step, all connections together.
        """
        self._plan, self._spending, self._size = plan, spending, size
        self._index = {name: i for i, name in enumerate(plan.names)}
        self.gaps: dict[Pair, Gap] = {}

    def send(self, connections: Mapping[Pair, int]) -> Steps[dict[Pair, float]]:
        """Send one step. Return the bit/s of the pairs that answered.

        Args:
            connections: connections of each pair.
        """
        names, rates = self._plan.names, dict[Pair, float]()
        steps = [
            Step(names[i], names[j], bulk(flows=count, max_bytes=self._size).probe)
            for (i, j), count in sorted(connections.items())
        ]
        event = yield SendRounds([steps], self._plan.round_s)
        while isinstance(event, Answered):
            answer = event.answer
            # These bytes are no sign that trains cost more than estimated.
            self._spending.take(answer.source, answer.bytes_sent, near=True)
            if answer.reply is not None:
                self._spending.allow(answer.reply.seconds)
                pair = self._index[answer.source], self._index[answer.target]
                if gap := find_gap(answer.source, answer.target, answer.reply, "unproven"):
                    self.gaps[pair] = gap
                if not answer.error and answer.reply.bulk.goodput_bps > 0:
                    rates[pair] = answer.reply.bulk.goodput_bps
            event = yield None
        return rates
