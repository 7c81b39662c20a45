"""Finds which pairs share a bottleneck. Output: a History with path lengths and evidence (Choreo section 3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.measure.predict.foreseen import foreseen
    from gavotte.measure.sharing.experiments import (
        SharingResult,
        cost_of_sharing,
        measure_sharing,
        run_experiments,
        typical_rate,
    )
    from gavotte.measure.sharing.learning import SharingPlan, SharingQuestion, carry_out, learn_sharing, plan_sharing

__all__ = [
    "SharingPlan",
    "SharingQuestion",
    "SharingResult",
    "carry_out",
    "cost_of_sharing",
    "foreseen",
    "learn_sharing",
    "measure_sharing",
    "plan_sharing",
    "run_experiments",
    "typical_rate",
]

load_on_first_use(
    __name__,
    {
        "gavotte.measure.predict.foreseen": ("foreseen",),
        "experiments": ("SharingResult", "cost_of_sharing", "measure_sharing", "run_experiments", "typical_rate"),
        "learning": ("SharingPlan", "SharingQuestion", "carry_out", "learn_sharing", "plan_sharing"),
    },
)
