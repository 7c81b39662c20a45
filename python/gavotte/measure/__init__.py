"""Measure the network between the hosts of an inventory. Input: an Inventory. Output: a History."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.measure.carry.journal import journal_path
    from gavotte.measure.measuring import Measurement, carry_out, measure
    from gavotte.measure.plan.cost import Cost, CostLimits
    from gavotte.measure.plan.methods import METHODS
    from gavotte.measure.plan.methods.bulk import bulk, jain_index
    from gavotte.measure.plan.methods.choreo import choreo
    from gavotte.measure.plan.methods.method import Method
    from gavotte.measure.plan.methods.pingpong import alpha_beta
    from gavotte.measure.plan.path_plan import PathPlan, plan_paths
    from gavotte.measure.planning import MeasurementPlan, plan_measurement
    from gavotte.measure.predict.pilot import Pilot, pilot_cost, take_pilot
    from gavotte.measure.predict.predicting import expected_cost, predict_cost
    from gavotte.measure.question import MeasureQuestion, MeasureSession, ProbeSession

__all__ = [
    "METHODS",
    "Cost",
    "CostLimits",
    "MeasureQuestion",
    "MeasureSession",
    "Measurement",
    "MeasurementPlan",
    "Method",
    "PathPlan",
    "Pilot",
    "ProbeSession",
    "alpha_beta",
    "bulk",
    "carry_out",
    "choreo",
    "expected_cost",
    "jain_index",
    "journal_path",
    "measure",
    "pilot_cost",
    "plan_measurement",
    "plan_paths",
    "predict_cost",
    "take_pilot",
]

load_on_first_use(
    __name__,
    {
        "carry.journal": ("journal_path",),
        "measuring": ("Measurement", "carry_out", "measure"),
        "plan.cost": ("Cost", "CostLimits"),
        "plan.methods": ("METHODS",),
        "plan.methods.bulk": ("bulk", "jain_index"),
        "plan.methods.choreo": ("choreo",),
        "plan.methods.method": ("Method",),
        "plan.methods.pingpong": ("alpha_beta",),
        "plan.path_plan": ("PathPlan", "plan_paths"),
        "planning": ("MeasurementPlan", "plan_measurement"),
        "predict.pilot": ("Pilot", "pilot_cost", "take_pilot"),
        "predict.predicting": ("expected_cost", "predict_cost"),
        "question": ("MeasureQuestion", "MeasureSession", "ProbeSession"),
    },
)
