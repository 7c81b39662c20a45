"""How far an application says that it has come."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

from gavotte.formats.app import App

MOST_BYTES = 64
"""Bytes of a progress file that are read."""


def read_progress(path: Path) -> float | None:
    """Return the share of an application that is done, from 0 to 1; None = the file does not say it.

    An application may write the file at any time, so what cannot be read now is no error.
    """
    with suppress(OSError, ValueError):
        with path.open("rb") as file:
            share = float(file.read(MOST_BYTES).decode("ascii"))
        if math.isfinite(share) and 0.0 <= share <= 1.0:
            return share
    return None


def left_of(app: App, share: float) -> App:
    """Return an application with the transfers that are still to come.

    Args:
        app: the whole application.
        share: share of its bytes that are sent, from 0 to 1. Phases are sent one after the other, and the transfers of
            a phase at the same pace.

    Returns:
        The application, its phases numbered from 0, and bytes rounded up.
    """
    sent = share * app.total_bytes
    left = []
    for phase in sorted({transfer.phase for transfer in app.transfer}):
        transfers = [transfer for transfer in app.transfer if transfer.phase == phase]
        total = sum(transfer.bytes for transfer in transfers)
        done = min(1.0, sent / total) if total else 1.0
        sent = max(0.0, sent - total)
        left += [
            transfer.model_copy(update={"bytes": math.ceil(transfer.bytes * (1.0 - done))})
            for transfer in transfers
            if transfer.bytes * (1.0 - done) > 0
        ]
    number = {phase: at for at, phase in enumerate(sorted({transfer.phase for transfer in left}))}
    renumbered = [transfer.model_copy(update={"phase": number[transfer.phase]}) for transfer in left]
    return app.model_copy(update={"transfer": renumbered})
