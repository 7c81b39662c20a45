"""Decide which task runs on which host: from a Network and Apps to a Placement.

A `Question` holds what to place and where, an `Effort` how hard to try, and a `Goal` what to minimise. `decide` returns
an `Answer`: the Placement, how it was found, and what follows from it.
"""

from gavotte.place.answer import INTERRUPTED_TEXT, Answer
from gavotte.place.columns import Instance, PlacementLimits, Quota, build_instance
from gavotte.place.constraints import latency_s
from gavotte.place.deciding import decide, place
from gavotte.place.effort import METHODS, Effort, Watch
from gavotte.place.explaining import Explanation, Relocation, explain
from gavotte.place.forecast import Forecast, forecast
from gavotte.place.merge import task_keys
from gavotte.place.phases import states
from gavotte.place.placing import evaluate
from gavotte.place.question import Question
from gavotte.place.robust import worst_case
from gavotte.place.running import Running, twice_counted
from gavotte.place.selecting import select_hosts
from gavotte.place.thrift import GOALS, Goal
from gavotte.place.worth import Worth, worth

__all__ = [
    "GOALS",
    "INTERRUPTED_TEXT",
    "METHODS",
    "Answer",
    "Effort",
    "Explanation",
    "Forecast",
    "Goal",
    "Instance",
    "PlacementLimits",
    "Question",
    "Quota",
    "Relocation",
    "Running",
    "Watch",
    "Worth",
    "build_instance",
    "decide",
    "evaluate",
    "explain",
    "forecast",
    "latency_s",
    "place",
    "select_hosts",
    "states",
    "task_keys",
    "twice_counted",
    "worst_case",
    "worth",
]
