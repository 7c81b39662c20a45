"""Start a job with its ranks where their messages take least time: measure, count and place what is missing, then run.

Input: a launcher's command line and hosts. Output: the run's exit status and its Record, next to the prediction.
"""

from gavotte.launch.launching import OFF_VARIABLE, Launched, carry_out, launch, off
from gavotte.launch.planning import LaunchPlan, plan_launch
from gavotte.launch.question import LaunchQuestion, LaunchSession
from gavotte.launch.shelf import Shelf
from gavotte.launch.tuning import OFF_VARIABLE as TUNE_VARIABLE
from gavotte.launch.tuning import JobTuning
from gavotte.launch.tuning import off as tuning_off

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
