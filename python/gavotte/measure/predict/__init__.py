"""Predict the cost of a measurement, from a pilot's few probes and by simulating it on a known network."""
