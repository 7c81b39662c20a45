"""Import modules of a package without what the package itself loads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec


@contextmanager
def bare(name: str) -> Iterator[None]:
    """Let modules of a package be imported without its `__init__`. A later import of the package itself runs it.

    Args:
        name: of the package, which is at the top level.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None:
        yield
        return
    sys.modules[name] = module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules[name]
