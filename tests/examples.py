"""Number of examples for each property: GAVOTTE_EXAMPLES=fast takes a tenth of them, slow twenty times as many."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SHARE = {"fast": 0.1, "": 1.0, "slow": 20.0}[os.environ.get("GAVOTTE_EXAMPLES", "")]


def examples(count: int) -> settings:
    """Return the settings for this number of examples, without a time limit for each, which would judge the machine."""
    health = [HealthCheck.function_scoped_fixture]
    return settings(max_examples=max(1, round(SHARE * count)), deadline=None, suppress_health_check=health)


settings.register_profile("shared", examples(100))
settings.load_profile("shared")
