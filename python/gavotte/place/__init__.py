"""Decides which task runs on which host: Network and Apps in, Placement out."""

from gavotte.place.columns import Instance, Limits, build_instance
from gavotte.place.explaining import Explanation, explain
from gavotte.place.methods import METHODS
from gavotte.place.migrating import Decision, Forecast, Live, Migration, reconsider
from gavotte.place.placing import Answer, decide, evaluate, place
from gavotte.place.robust import worst_case
from gavotte.place.running import Running
from gavotte.place.selecting import select_hosts
from gavotte.place.sequencing import Arrival, InSequence, Review, arrive, sequence
from gavotte.place.thrift import GOALS, spend
from gavotte.place.unfolding import state_of, unfold
from gavotte.place.worth import Worth, worth

__all__ = [
    "GOALS",
    "METHODS",
    "Answer",
    "Arrival",
    "Decision",
    "Explanation",
    "Forecast",
    "InSequence",
    "Instance",
    "Limits",
    "Live",
    "Migration",
    "Review",
    "Running",
    "Worth",
    "arrive",
    "build_instance",
    "decide",
    "evaluate",
    "explain",
    "place",
    "reconsider",
    "select_hosts",
    "sequence",
    "spend",
    "state_of",
    "unfold",
    "worst_case",
    "worth",
]
