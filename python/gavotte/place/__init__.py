"""Decide which task runs on which host: from a Network and Apps to a Placement.

A `Question` holds what to place and where, an `Effort` how hard to try, and a `Goal` what to minimise. `decide` returns
an `Answer`: the Placement, how it was found, and what follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.place.answer import INTERRUPTED_TEXT, Answer
    from gavotte.place.columns import Instance, build_instance
    from gavotte.place.constraints import latency_s
    from gavotte.place.deciding import decide, place
    from gavotte.place.effort import METHODS, Effort, Watch
    from gavotte.place.explaining import Explanation, Relocation, explain
    from gavotte.place.forecast import Forecast, forecast
    from gavotte.place.front import Front, front
    from gavotte.place.limits import PlacementLimits, Quota
    from gavotte.place.merge import states, task_keys
    from gavotte.place.patterns import Pattern, read_pattern
    from gavotte.place.placing import evaluate
    from gavotte.place.question import Question
    from gavotte.place.ranks import RankOrder, Selection, keep_hosts, order_ranks, with_slots
    from gavotte.place.replaying import Job, Replayed, ReplayedOrder, improve_order
    from gavotte.place.robust import worst_case
    from gavotte.place.running import Running, twice_counted
    from gavotte.place.selecting import select_hosts, with_inventory
    from gavotte.place.thrift import GOALS, Goal
    from gavotte.place.worth import Worth, after_s, worth

__all__ = [
    "GOALS",
    "INTERRUPTED_TEXT",
    "METHODS",
    "Answer",
    "Effort",
    "Explanation",
    "Forecast",
    "Front",
    "Goal",
    "Instance",
    "Job",
    "Pattern",
    "PlacementLimits",
    "Question",
    "Quota",
    "RankOrder",
    "Relocation",
    "Replayed",
    "ReplayedOrder",
    "Running",
    "Selection",
    "Watch",
    "Worth",
    "after_s",
    "build_instance",
    "decide",
    "evaluate",
    "explain",
    "forecast",
    "front",
    "improve_order",
    "keep_hosts",
    "latency_s",
    "order_ranks",
    "place",
    "read_pattern",
    "select_hosts",
    "states",
    "task_keys",
    "twice_counted",
    "with_inventory",
    "with_slots",
    "worst_case",
    "worth",
]

load_on_first_use(
    __name__,
    {
        "answer": ("INTERRUPTED_TEXT", "Answer"),
        "columns": ("Instance", "build_instance"),
        "constraints": ("latency_s",),
        "deciding": ("decide", "place"),
        "effort": ("METHODS", "Effort", "Watch"),
        "forecast": ("Forecast", "forecast"),
        "front": ("Front", "front"),
        "limits": ("PlacementLimits", "Quota"),
        "merge": ("states", "task_keys"),
        "patterns": ("Pattern", "read_pattern"),
        "placing": ("evaluate",),
        "question": ("Question",),
        "replaying": ("Job", "Replayed", "ReplayedOrder", "improve_order"),
        "robust": ("worst_case",),
        "running": ("Running", "twice_counted"),
        "thrift": ("GOALS", "Goal"),
        "worth": ("Worth", "after_s", "worth"),
        "explaining": ("Explanation", "Relocation", "explain"),
        "ranks": ("RankOrder", "Selection", "keep_hosts", "order_ranks", "with_slots"),
        "selecting": ("select_hosts", "with_inventory"),
    },
)
