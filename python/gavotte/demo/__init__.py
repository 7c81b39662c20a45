"""Show the main job end to end: measure an emulated cloud, place a real application's traffic, run it, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.demo.story import DemoResult, demo

__all__ = ["DemoResult", "demo"]

load_on_first_use(
    __name__,
    {
        "story": ("DemoResult", "demo"),
    },
)
