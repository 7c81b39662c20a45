"""Sequences of applications: placed as they arrive, reviewed as they run, and migrated if that saves time."""

from gavotte.place.sequence.migrating import Decision, Live, Migration, Projection, Remaining, reconsider
from gavotte.place.sequence.sequencing import Arrival, InSequence, Review, arrive, moved_on, sequence
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
