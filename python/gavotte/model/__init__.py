"""Learns what of a History lasts: a History goes in, a Network comes out."""

from gavotte.model.constant import METHODS, model

__all__ = ["METHODS", "model"]
