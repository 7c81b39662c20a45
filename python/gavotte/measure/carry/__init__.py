"""Carries out a measurement: runs its state machine, sends probes through agents, keeps a journal of answers."""
