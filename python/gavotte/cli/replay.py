"""`--replay H.npz --norm X`: predict the time of a plan in each snapshot of a History, with noise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.output import note

if TYPE_CHECKING:
    from gavotte.formats.history import History

Replay = Annotated[
    Path | None,
    typer.Option("--replay", help="Also predict the time in each snapshot of this History.", metavar="H.npz"),
]
Norm = Annotated[
    float | None,
    typer.Option("--norm", help="Add noise to --replay until Norm(N_E) is this.", min=0.0, max=1.0, metavar="SHARE"),
]


def read_replay(path: Path | None, norm: float | None, seed: int) -> History | None:
    """Return the History to replay, with noise added; None without --replay.

    Raises:
        BadParameter: for a norm without a History.
        GavotteError: when the file cannot be read, or cannot have that norm.
    """
    from gavotte.collective import with_noise
    from gavotte.formats.history import read_history

    if path is None:
        if norm is not None:
            raise typer.BadParameter("--norm needs --replay, to whose History it adds noise")
        return None
    history = read_history(path)
    return history if norm is None else with_noise(history, norm, seed=seed).history


def note_replay(seconds: Sequence[float]) -> None:
    """Print the mean, least and most of the predicted times."""
    note(
        f"replayed over {len(seconds)} snapshots: mean {sum(seconds) / len(seconds):.4g} s, "
        f"least {min(seconds):.4g} s, most {max(seconds):.4g} s"
    )
