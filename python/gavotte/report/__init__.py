"""Write a Network and its Placements as one HTML page that loads nothing from elsewhere."""

from gavotte.report.page import Outcome, report

__all__ = ["Outcome", "report"]
