"""Exact methods: the placement problem as integer programs, solved with proofs in child processes."""
