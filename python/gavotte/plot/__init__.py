"""Draw nouns on matplotlib's axes. Input: a Network, a History, an App or a Placement. Output: the axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.plot.drawing import app, history, network, placement

__all__ = ["app", "history", "network", "placement"]

load_on_first_use(
    __name__,
    {
        "drawing": ("app", "history", "network", "placement"),
    },
)
