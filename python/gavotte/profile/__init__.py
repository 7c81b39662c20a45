"""Profiling: make an App, with the bytes between each pair of tasks, from an application's traffic.

Each source of traffic is one file in `sources` and returns one `Traffic`. `profile` turns the Traffic into an App.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.profile.believing import EXACTNESS, Witness, belief, read_witness
    from gavotte.profile.comparing import CHANGED_SHARE, ProfileDifference, compare, merge, read_profile
    from gavotte.profile.gathering import Request
    from gavotte.profile.naming import parse_task, read_tasks
    from gavotte.profile.profiling import NOISE_SHARE, Profile, app_of, profile, read_traffic
    from gavotte.profile.series import DAY_S, Prediction, phases, predict
    from gavotte.profile.sources import SOURCES, Source
    from gavotte.profile.traces import TRACE_FORMATS
    from gavotte.profile.traffic import Count, Traffic, TrafficSpan

__all__ = [
    "CHANGED_SHARE",
    "DAY_S",
    "EXACTNESS",
    "NOISE_SHARE",
    "SOURCES",
    "TRACE_FORMATS",
    "Count",
    "Prediction",
    "Profile",
    "ProfileDifference",
    "Request",
    "Source",
    "Traffic",
    "TrafficSpan",
    "Witness",
    "app_of",
    "belief",
    "compare",
    "merge",
    "parse_task",
    "phases",
    "predict",
    "profile",
    "read_profile",
    "read_tasks",
    "read_traffic",
    "read_witness",
]

load_on_first_use(
    __name__,
    {
        "believing": ("EXACTNESS", "Witness", "belief", "read_witness"),
        "comparing": ("CHANGED_SHARE", "ProfileDifference", "compare", "merge", "read_profile"),
        "gathering": ("Request",),
        "naming": ("parse_task", "read_tasks"),
        "profiling": ("NOISE_SHARE", "Profile", "app_of", "profile", "read_traffic"),
        "series": ("DAY_S", "Prediction", "phases", "predict"),
        "sources": ("SOURCES", "Source"),
        "traces": ("TRACE_FORMATS",),
        "traffic": ("Count", "Traffic", "TrafficSpan"),
    },
)
