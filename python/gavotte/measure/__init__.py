"""Measures the network between the hosts of an inventory. Input: an Inventory. Output: a History."""

from gavotte.measure.adapt.planning import MeasurementPlan, plan_measurement
from gavotte.measure.carry.journal import journal_path
from gavotte.measure.measuring import Measurement, measure
from gavotte.measure.plan.cost import Cost, CostLimits
from gavotte.measure.plan.methods import METHODS, Method, alpha_beta, bulk, choreo, jain_index
from gavotte.measure.predict.pilot import Pilot, take_pilot
from gavotte.measure.predict.predicting import expected_cost, predict_cost

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
