"""The line that `--version` prints. This module loads next to nothing, since scripts ask for versions often."""

from __future__ import annotations

from gavotte import _core


def version() -> str:
    """Return the version, and how the compiled code was built."""
    return f"gavotte {_core.version()} ({_core.build_profile()})"
