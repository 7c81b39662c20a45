"""Compare two measurements of a network: report what has changed, what has not, and what is undecided."""

from gavotte.compare.comparing import LATENCY_MARGIN, MARGIN, MtuChange, NetworkComparison, PathDifference, compare

__all__ = ["LATENCY_MARGIN", "MARGIN", "MtuChange", "NetworkComparison", "PathDifference", "compare"]
