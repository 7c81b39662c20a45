"""Applications in sequence, carried out: placed and started as they arrive, and moved when a review says that it pays.

Input: Apps with their arrivals, a Network, and the command that starts an application with its placement. Output: what
ran where and when.
"""

from gavotte.launch.live.question import LiveQuestion, LiveResult, LiveSession, Ran
from gavotte.launch.live.sequencing import live

__all__ = ["LiveQuestion", "LiveResult", "LiveSession", "Ran", "live"]
