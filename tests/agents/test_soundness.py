"""Numbers of agents' answers: what a skewed clock may say, and what nothing may."""

from __future__ import annotations

import math

import pytest

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.soundness import check_message
from gavotte.errors import AgentError


def test_a_receivers_clock_may_be_behind() -> None:
    # One microsecond behind ended a campaign, and so did ten minutes, more than any probe may take.
    for ahead_s in (-6.8e-7, -600.0, 600.0):
        late_s = 0.001 + ahead_s
        result = pb.DatagramsResult(
            sent=10,
            received=10,
            seconds=0.1,
            jitter_s=1e-5,
            least_delay_s=late_s,
            median_delay_s=late_s,
            high_delay_s=late_s,
            most_delay_s=late_s,
            clock_ahead_s=ahead_s,
        )
        check_message(pb.ProbeReply(datagrams=result), deadline_s=5.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("clock_ahead_s", -1e12), ("clock_ahead_s", math.nan), ("least_delay_s", -math.inf), ("jitter_s", -1e-9)],
)
def test_what_no_clock_says_is_refused(field: str, value: float) -> None:
    with pytest.raises(AgentError, match=f"it reports {field} = .*, which is impossible"):
        check_message(pb.ProbeReply(datagrams=pb.DatagramsResult(**{field: value})), deadline_s=5.0)  # type: ignore[arg-type]
