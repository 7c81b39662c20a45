"""Answer over HTTP what people and schedulers ask: live pages of a store, Topograph's API, a scheduler extender.

Input: a store, and the files of a Network and of a Placement with its Apps. All are read again when they change.
"""

from gavotte.serve.question import ServeQuestion
from gavotte.serve.running import ServeSession, serve
from gavotte.serve.scheduling import Scores

__all__ = ["Scores", "ServeQuestion", "ServeSession", "serve"]
