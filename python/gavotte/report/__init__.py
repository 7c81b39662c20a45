"""Draws what was found as one HTML page that needs no network: a Network and Placements go in."""

from gavotte.report.page import Outcome, report

__all__ = ["Outcome", "report"]
