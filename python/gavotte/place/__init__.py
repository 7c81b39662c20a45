"""Decides which task runs on which host: Network and Apps in, Placement out."""

from gavotte.place.columns import Instance, PlacementLimits, Quota, build_instance
from gavotte.place.constraints import latency_s
from gavotte.place.explaining import Explanation, Relocation, explain
from gavotte.place.forecast import Forecast, forecast
from gavotte.place.merge import task_keys
from gavotte.place.methods import METHODS
from gavotte.place.phases import decide_phases, states
from gavotte.place.placing import Answer, decide, evaluate, place
from gavotte.place.robust import worst_case
from gavotte.place.running import Running, twice_counted
from gavotte.place.selecting import select_hosts
from gavotte.place.thrift import GOALS, spend
from gavotte.place.worth import Worth, worth

__all__ = [
    "GOALS",
    "METHODS",
    "Answer",
    "Explanation",
    "Forecast",
    "Instance",
    "PlacementLimits",
    "Quota",
    "Relocation",
    "Running",
    "Worth",
    "build_instance",
    "decide",
    "decide_phases",
    "evaluate",
    "explain",
    "forecast",
    "latency_s",
    "place",
    "select_hosts",
    "spend",
    "states",
    "task_keys",
    "twice_counted",
    "worst_case",
    "worth",
]
