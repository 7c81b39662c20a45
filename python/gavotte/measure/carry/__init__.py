"""Carry out a measurement: run its state machine, send probes through agents, keep a journal of answers."""
