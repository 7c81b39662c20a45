"""Start a job with its ranks where their messages take least time: measure, count and place what is missing, then run.

Input: a launcher's command line and hosts. Output: the run's exit status and its Record, next to the prediction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.launch.launching import OFF_VARIABLE, Launched, carry_out, launch, off
    from gavotte.launch.planning import LaunchPlan, plan_launch
    from gavotte.launch.question import LaunchQuestion, LaunchSession
    from gavotte.launch.shelf import Shelf
    from gavotte.launch.tuning import TUNE_VARIABLE, JobTuning, tuning_off

__all__ = [
    "OFF_VARIABLE",
    "TUNE_VARIABLE",
    "JobTuning",
    "LaunchPlan",
    "LaunchQuestion",
    "LaunchSession",
    "Launched",
    "Shelf",
    "carry_out",
    "launch",
    "off",
    "plan_launch",
    "tuning_off",
]

load_on_first_use(
    __name__,
    {
        "launching": ("OFF_VARIABLE", "Launched", "carry_out", "launch", "off"),
        "planning": ("LaunchPlan", "plan_launch"),
        "question": ("LaunchQuestion", "LaunchSession"),
        "shelf": ("Shelf",),
        "tuning": ("TUNE_VARIABLE", "JobTuning", "tuning_off"),
    },
)
