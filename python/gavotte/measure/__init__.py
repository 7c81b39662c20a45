"""Measures the network between the hosts of an inventory: an Inventory goes in, a History comes out."""

from gavotte.measure.campaign import Measurement, measure
from gavotte.measure.journal import journal_path
from gavotte.measure.methods import METHODS, Method, alpha_beta, bulk, jain_index
from gavotte.measure.plan import Cost, Limits, Plan, plan

__all__ = [
    "METHODS",
    "Cost",
    "Limits",
    "Measurement",
    "Method",
    "Plan",
    "alpha_beta",
    "bulk",
    "jain_index",
    "journal_path",
    "measure",
    "plan",
]
