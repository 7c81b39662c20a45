"""Collective operations of real MPI programs in a lab: each prediction next to the measured time."""
