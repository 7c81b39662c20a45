"""The command line: `gavotte VERB`. Each verb is one call into the library."""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import NoReturn

__all__ = ["main"]

COLLECT_AFTER = 150_000
"""Objects after which a starting command looks for garbage. Imports make some 100,000, and none of it is garbage.

A single collection during the start costs 15 ms. Python's own 700 objects cost a twentieth of the start.
"""


def main() -> NoReturn:
    """Run one verb and exit with its status: 0 done, 1 cannot be met or bad input, 2 usage, 128 + signal."""
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        from gavotte.cli.version import version

        # Loading the verbs takes ten times as long. They report an error as usual.
        with contextlib.suppress(OSError):
            print(version(), flush=True)
            sys.exit(0)
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER)
    from gavotte.cli.entry import main as run

    run(usual)
