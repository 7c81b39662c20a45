"""Load gRPC so that its core does not write to stderr what its errors also contain; we make verdicts from the errors.

Modules import `grpc` from here, so that nothing else loads it first. Commands that reach no agent do without gRPC. The
environment is restored afterwards, for the sake of children.
"""

from __future__ import annotations

import os

__all__ = ["grpc"]

VARIABLE = "GRPC_VERBOSITY"

_stated = os.environ.get(VARIABLE)
os.environ.setdefault(VARIABLE, "NONE")
import grpc  # noqa: E402 - see above

if _stated is None:
    del os.environ[VARIABLE]
