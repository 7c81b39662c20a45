"""The command line: `gavotte VERB`. Each verb is one call into the library."""

from gavotte.cli.entry import main

__all__ = ["main"]
