"""Carries out a measurement: sends probes through agents, and keeps a journal of their answers."""
