"""Sequences of applications: placed as they arrive, reviewed as they run, and migrated if that saves time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.place.sequence.live import Live, Projection, Remaining, moved_on
    from gavotte.place.sequence.migrating import Decision, Migration, reconsider
    from gavotte.place.sequence.sequencing import Arrival, InSequence, Review, arrive, sequence
    from gavotte.place.sequence.unfolding import state_of, unfold

__all__ = [
    "Arrival",
    "Decision",
    "InSequence",
    "Live",
    "Migration",
    "Projection",
    "Remaining",
    "Review",
    "arrive",
    "moved_on",
    "reconsider",
    "sequence",
    "state_of",
    "unfold",
]

load_on_first_use(
    __name__,
    {
        "live": ("Live", "Projection", "Remaining", "moved_on"),
        "migrating": ("Decision", "Migration", "reconsider"),
        "sequencing": ("Arrival", "InSequence", "Review", "arrive", "sequence"),
        "unfolding": ("state_of", "unfold"),
    },
)
