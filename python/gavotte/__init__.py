"""Gavotte makes distributed applications faster on a network their owner can neither see nor control.

This package can do everything that the command line can. `import gavotte` gives the nouns with their readers and
writers, and the verbs:

    network = gavotte.model(gavotte.read_history("cloud.npz"))
    placement = gavotte.place(network, [gavotte.read_app("sort.app.toml")])
    gavotte.write_placement("sort.placement.json", placement)

A verb is also a module, with the types that it needs: `from gavotte.place import Question`. Everything is loaded on
first use. `make docs` builds a page for each module.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gavotte.formats.nouns import NOUNS
from gavotte.loading import Package

if TYPE_CHECKING:
    from inspect import Signature

    from gavotte import (
        aio,
        collective,
        guarantee,
        hosts,
        lab,
        mapping,
        mpi,
        plot,
        store,
        transfer,
    )
    from gavotte.compare import compare
    from gavotte.demo import demo
    from gavotte.errors import AgentError, FormatError, GavotteError, InfeasibleError
    from gavotte.export import export
    from gavotte.formats.app import App, read_app, write_app
    from gavotte.formats.campaign import Campaign, read_campaign
    from gavotte.formats.collective import Collective, read_collective, write_collective
    from gavotte.formats.guarantee import Guarantee, read_guarantee, write_guarantee
    from gavotte.formats.history import History, read_history, write_history
    from gavotte.formats.inventory import Inventory, read_inventory, write_inventory
    from gavotte.formats.network import Network, read_network, write_network
    from gavotte.formats.placement import Placement, read_placement, write_placement
    from gavotte.formats.record import Record, read_records, write_records
    from gavotte.formats.topology import Topology, read_topology
    from gavotte.launch import launch
    from gavotte.measure import measure
    from gavotte.model import model
    from gavotte.place import place
    from gavotte.profile import profile
    from gavotte.report import report
    from gavotte.run import run
    from gavotte.simulate import simulate
    from gavotte.transfer import broadcast
    from gavotte.watch import watch

__all__ = [
    "AgentError",
    "App",
    "Campaign",
    "Collective",
    "FormatError",
    "GavotteError",
    "Guarantee",
    "History",
    "InfeasibleError",
    "Inventory",
    "Network",
    "Placement",
    "Record",
    "Topology",
    "aio",
    "broadcast",
    "collective",
    "compare",
    "demo",
    "export",
    "guarantee",
    "hosts",
    "lab",
    "launch",
    "mapping",
    "measure",
    "model",
    "mpi",
    "place",
    "plot",
    "profile",
    "read_app",
    "read_campaign",
    "read_collective",
    "read_guarantee",
    "read_history",
    "read_inventory",
    "read_network",
    "read_placement",
    "read_records",
    "read_topology",
    "report",
    "run",
    "simulate",
    "store",
    "transfer",
    "watch",
    "write_app",
    "write_collective",
    "write_guarantee",
    "write_history",
    "write_inventory",
    "write_network",
    "write_placement",
    "write_records",
]

_DOORS = {"broadcast": "transfer"}
"""Functions whose room has another name: function to room."""
_VERBS = frozenset(
    "compare demo export launch measure model place profile report run simulate watch".split()  # noqa: SIM905
)
"""Modules that have a function of their own name."""
_ROOMS = [name for name in __all__ if name.isalpha() and name.islower() and name not in _DOORS]
_MODULES = {noun.lower() for noun in NOUNS}


def __getattr__(name: str) -> Any:
    """Load a room or a noun on first use, so that the command line and the lab's keeper start fast."""
    if name in _ROOMS:
        return import_module(f"gavotte.{name}")
    if name in _DOORS:
        return getattr(import_module(f"gavotte.{_DOORS[name]}"), name)
    if name not in __all__:
        raise AttributeError(f"module 'gavotte' has no attribute {name!r}")
    noun = name.rpartition("_")[2].lower().removesuffix("s")
    module = f"gavotte.formats.{noun}" if noun in _MODULES else "gavotte.errors"
    return getattr(import_module(module), name)


class _Verb(Package):
    """A module that is called as its function of the same name: `gavotte.place(...)` is `gavotte.place.place(...)`."""

    @property
    def _function(self) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])

    @property
    def __signature__(self) -> Signature:
        from inspect import signature

        return signature(self._function)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)


class _Package(ModuleType):
    """This package. Python sets a module as an attribute of its package when it has loaded it, in whatever way."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _VERBS and isinstance(value, ModuleType):
            value.__class__ = _Verb
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
