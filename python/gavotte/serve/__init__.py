"""Answer over HTTP what schedulers and people ask about a Network: Topograph's API, a scheduler extender, a page.

Input: the files of a Network, and of a Placement with its Apps. They are read again when they change.
"""

from gavotte.serve.question import ServeQuestion
from gavotte.serve.running import ServeSession, serve
from gavotte.serve.scheduling import Scores

__all__ = ["Scores", "ServeQuestion", "ServeSession", "serve"]
