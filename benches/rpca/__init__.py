"""The RPCA paper's experiments; see `__main__`."""
