"""Choose among an MPI library's own algorithms by predicted times, and write the choices as its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.collective.tuning.choosing import (
        BUSY_OVERHEAD_S,
        TunedSize,
        Tuning,
        TuningQuestion,
        choose,
        size_ladder,
    )
    from gavotte.collective.tuning.writing import OPEN_MPI_FILE, settings_text, variables

__all__ = [
    "BUSY_OVERHEAD_S",
    "OPEN_MPI_FILE",
    "TunedSize",
    "Tuning",
    "TuningQuestion",
    "choose",
    "settings_text",
    "size_ladder",
    "variables",
]

load_on_first_use(
    __name__,
    {
        "choosing": ("BUSY_OVERHEAD_S", "TunedSize", "Tuning", "TuningQuestion", "choose", "size_ladder"),
        "writing": ("OPEN_MPI_FILE", "settings_text", "variables"),
    },
)
