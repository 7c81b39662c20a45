"""Packages that only some verbs need: the extra that installs each, and a one-line error when one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from gavotte.errors import UnsupportedError


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Convert an import inside that fails to an error that names the extra.

    Args:
        extra: a name from `[project.optional-dependencies]` in pyproject.toml.

    Raises:
        UnsupportedError: when a package of the extra is missing or cannot be loaded.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or extra).partition(".")[0]
        if package == "gavotte":
            raise
        raise _unsupported(package, extra, missing=isinstance(error, ModuleNotFoundError)) from None


def lacking(package: str, extra: str) -> UnsupportedError | None:
    """Return the error for a package that a child process needs; None if it is installed."""
    return None if find_spec(package) is not None else _unsupported(package, extra, missing=True)


def _unsupported(package: str, extra: str, *, missing: bool) -> UnsupportedError:
    problem = "is not installed" if missing else "cannot be loaded"
    return UnsupportedError(f"`{package}` {problem}", hint=f"pip install 'gavotte[{extra}]'")
