"""Finds which hosts and uplinks are below the others, and by how much, in O(log N) rounds of probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.measure.slow.planning import SlowPlan, SlowQuestion, plan_slow
    from gavotte.measure.slow.running import SlowEnd, SlowHosts, search
    from gavotte.measure.slow.searching import SearchResult, find_slow, most_rounds
    from gavotte.measure.slow.uplinks import Racks, find_slow_uplinks
    from gavotte.measure.slow.verdicts import Threshold

__all__ = [
    "Racks",
    "SearchResult",
    "SlowEnd",
    "SlowHosts",
    "SlowPlan",
    "SlowQuestion",
    "Threshold",
    "find_slow",
    "find_slow_uplinks",
    "most_rounds",
    "plan_slow",
    "search",
]

load_on_first_use(
    __name__,
    {
        "planning": ("SlowPlan", "SlowQuestion", "plan_slow"),
        "running": ("SlowEnd", "SlowHosts", "search"),
        "searching": ("SearchResult", "find_slow", "most_rounds"),
        "uplinks": ("Racks", "find_slow_uplinks"),
        "verdicts": ("Threshold",),
    },
)
