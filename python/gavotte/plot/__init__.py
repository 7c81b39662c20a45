"""Draw nouns on matplotlib's axes. Input: a Network, a History, an App or a Placement. Output: the axes."""

from gavotte.plot.drawing import app, history, network, placement

__all__ = ["app", "history", "network", "placement"]
