"""Decide from the answers of a measurement's probes what to measure next. No clock, no I/O."""
