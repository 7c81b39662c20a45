"""Sequences of applications: placed as they arrive, reviewed as they run, and migrated if that saves time."""

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
