"""Estimate the lasting rate and latency of each pair in a History, and return them as a Network."""

from gavotte.model.choosing import PURPOSES, Choice, Purpose
from gavotte.model.constant import METHODS, Constant, find_constant, model, transfer_times
from gavotte.model.judging import Findings, judge
from gavotte.model.stopping import Settled, settled
from gavotte.model.subset import cost_of_subset, random_rings, usual_degree

__all__ = [
    "METHODS",
    "PURPOSES",
    "Choice",
    "Constant",
    "Findings",
    "Purpose",
    "Settled",
    "cost_of_subset",
    "find_constant",
    "judge",
    "model",
    "random_rings",
    "settled",
    "transfer_times",
    "usual_degree",
]
