"""Finds which hosts and uplinks are below the others, and by how much, in O(log N) rounds of probes."""

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
