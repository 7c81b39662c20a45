"""Methods to measure one path, each in a module of its own. `METHODS` lists them by name."""

from __future__ import annotations

from collections.abc import Callable

from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.methods.choreo import choreo
from gavotte.measure.plan.methods.method import Method
from gavotte.measure.plan.methods.pingpong import PINGPONG
from gavotte.measure.plan.methods.train import TRAIN

METHODS: dict[str, Method] = {method.name: method for method in (TRAIN, choreo(), bulk(), PINGPONG)}

SHAPED: dict[str, Callable[..., Method]] = {"choreo": choreo, "bulk": bulk}
"""Methods whose probes can have other shapes, with the functions that make them."""
