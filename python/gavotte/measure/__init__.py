"""Measures the network between the hosts of an inventory. Input: an Inventory. Output: a History."""

from gavotte.measure.cost import Cost, CostLimits
from gavotte.measure.journal import journal_path
from gavotte.measure.measuring import Measurement, measure
from gavotte.measure.methods import METHODS, Method, alpha_beta, bulk, choreo, jain_index
from gavotte.measure.pilot import Pilot, take_pilot
from gavotte.measure.planning import MeasurementPlan, plan_measurement
from gavotte.measure.predicting import expected_cost, predict_cost

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
    "jain_index",
    "journal_path",
    "measure",
    "plan_measurement",
    "predict_cost",
    "take_pilot",
]
