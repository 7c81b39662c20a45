"""Predicts the cost of a measurement: a pilot's few probes, and the whole measurement played on a known network."""
