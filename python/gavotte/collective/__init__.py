"""Make trees for collective operations from a Network, predict how long they take, and replay them over a History."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.collective.building import build_shim
    from gavotte.collective.drawing import draw
    from gavotte.collective.library import read_library
    from gavotte.collective.noise import Noisy, with_noise
    from gavotte.collective.planning import ALGORITHMS, OPERATIONS, TreeSearch, plan
    from gavotte.collective.ranks import ranks_over
    from gavotte.collective.replaying import replay
    from gavotte.collective.shim import shim_text
    from gavotte.terms.norm import norm_of

__all__ = [
    "ALGORITHMS",
    "OPERATIONS",
    "Noisy",
    "TreeSearch",
    "build_shim",
    "draw",
    "norm_of",
    "plan",
    "ranks_over",
    "read_library",
    "replay",
    "shim_text",
    "with_noise",
]

load_on_first_use(
    __name__,
    {
        "building": ("build_shim",),
        "drawing": ("draw",),
        "library": ("read_library",),
        "noise": ("Noisy", "with_noise"),
        "planning": ("ALGORITHMS", "OPERATIONS", "TreeSearch", "plan"),
        "ranks": ("ranks_over",),
        "replaying": ("replay",),
        "shim": ("shim_text",),
        "gavotte.terms.norm": ("norm_of",),
    },
)
