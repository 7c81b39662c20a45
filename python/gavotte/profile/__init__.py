"""From an application's traffic to its App: the bytes that each task sends to each other.

Each source of traffic is one file in `sources` and returns one `Traffic`; `profile` turns that into an App.
"""

from gavotte.profile.naming import parse_task, read_tasks
from gavotte.profile.profiling import NOISE_SHARE, Profile, app_of, profile
from gavotte.profile.sources import SOURCES, Source
from gavotte.profile.traffic import Count, Span, Traffic

__all__ = [
    "NOISE_SHARE",
    "SOURCES",
    "Count",
    "Profile",
    "Source",
    "Span",
    "Traffic",
    "app_of",
    "parse_task",
    "profile",
    "read_tasks",
]
