"""Damaged files through the whole command, endlessly: `python -m tests.fuzzing --seconds 120 --seed 1`."""
