"""Bandwidth guarantees: whether a network can keep them."""

from gavotte.guarantee.planning import Admission, LinkSum, plan

__all__ = ["Admission", "LinkSum", "plan"]
