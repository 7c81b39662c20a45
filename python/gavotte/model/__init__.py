"""Estimate the lasting rate and latency of each pair in a History, and return them as a Network."""

from gavotte.model.choosing import PURPOSES, Choice, Purpose
from gavotte.model.constant import METHODS, Constant, find_constant, model, transfer_times
from gavotte.model.held_out import HeldOutCheck, check_held_out
from gavotte.model.judging import Findings, judge
from gavotte.model.stopping import Settled, settled
from gavotte.model.subset import cost_of_subset, random_rings, usual_degree

__all__ = [
    "METHODS",
    "PURPOSES",
    "Choice",
    "Constant",
    "Findings",
    "HeldOutCheck",
    "Purpose",
    "Settled",
    "check_held_out",
    "cost_of_subset",
    "find_constant",
    "judge",
    "model",
    "random_rings",
    "settled",
    "transfer_times",
    "usual_degree",
]
