"""Measures the network between the hosts of an inventory: an Inventory goes in, a History comes out."""

from gavotte.measure.cost import Cost, CostLimits
from gavotte.measure.foretelling import expected_cost, foretell
from gavotte.measure.journal import journal_path
from gavotte.measure.measuring import Measurement, measure
from gavotte.measure.methods import METHODS, Method, alpha_beta, bulk, choreo, jain_index
from gavotte.measure.pilot import Pilot, take_pilot
from gavotte.measure.planning import MeasurementPlan, plan_measurement

__all__ = [
    "METHODS",
    "Cost",
    "CostLimits",
    "Measurement",
    "MeasurementPlan",
    "Method",
    "Pilot",
    "alpha_beta",
    "bulk",
    "choreo",
    "expected_cost",
    "foretell",
    "jain_index",
    "journal_path",
    "measure",
    "plan_measurement",
    "take_pilot",
]
