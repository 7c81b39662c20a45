"""`--replay H.npz --norm X`: predict the time of a plan in each snapshot of a History, with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gavotte.cli.declared import option
from gavotte.cli.output import note

if TYPE_CHECKING:
    from gavotte.formats.history import History


@dataclass(frozen=True)
class ReplayOptions:
    """Which History to replay, and with how much noise."""

    history: Path | None = option("Also predict the time in each snapshot of this History.", "H.npz", "--replay")
    norm: float | None = option("Add noise to --replay until Norm(N_E) is this.", "SHARE", min=0.0, max=1.0)


def read_replay(asked: ReplayOptions, seed: int) -> History | None:
    """Return the History to replay, with noise added; None without --replay.

    Raises:
        BadParameter: for a norm without a History.
        GavotteError: when the file cannot be read, or cannot have that norm.
    """
    from gavotte.collective import with_noise
    from gavotte.formats.history import read_history

    if asked.history is None:
        if asked.norm is not None:
            raise typer.BadParameter("--norm needs --replay, to whose History it adds noise")
        return None
    history = read_history(asked.history)
    return history if asked.norm is None else with_noise(history, asked.norm, seed=seed).history


def note_replay(seconds: Sequence[float]) -> None:
    """Print the mean, least and most of the predicted times."""
    note(
        f"replayed over {len(seconds)} snapshots: mean {sum(seconds) / len(seconds):.4g} s, "
        f"least {min(seconds):.4g} s, most {max(seconds):.4g} s"
    )
