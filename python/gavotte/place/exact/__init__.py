"""Proofs: the placement problem as a compact integer program, and solvers in processes of their own."""
