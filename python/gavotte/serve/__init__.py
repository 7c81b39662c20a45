"""Answer over HTTP what people and schedulers ask: live pages of a store, Topograph's API, a scheduler extender.

Input: a store, and the files of a Network and of a Placement with its Apps. All are read again when they change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.extras import needs
from gavotte.loading import load_on_first_use

with needs("serve"):
    # Most modules need it, and also the store's library, which the extra installs with it.
    import aiohttp  # noqa: F401

if TYPE_CHECKING:
    from gavotte.serve.question import ServeQuestion
    from gavotte.serve.running import ServeSession, serve
    from gavotte.serve.scheduling import Scores

__all__ = ["Scores", "ServeQuestion", "ServeSession", "serve"]

load_on_first_use(
    __name__,
    {
        "question": ("ServeQuestion",),
        "running": ("ServeSession", "serve"),
        "scheduling": ("Scores",),
    },
)
