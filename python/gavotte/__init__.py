"""Gavotte makes distributed applications faster on a network their owner can neither see nor control.

This package can do everything that the command line can. `import gavotte` gives the nouns with their readers and
writers, and the rooms, each with a function of the verb's name:

    network = gavotte.model.model(gavotte.read_history("cloud.npz"))
    placement = gavotte.place.place(network, [gavotte.read_app("sort.app.toml")])
    gavotte.write_placement("sort.placement.json", placement)

Everything is loaded on first use. `make docs` builds a page for each room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gavotte.formats.nouns import NOUNS

if TYPE_CHECKING:
    from gavotte import (
        collective,
        compare,
        demo,
        export,
        guarantee,
        hosts,
        lab,
        launch,
        mapping,
        measure,
        model,
        mpi,
        place,
        profile,
        report,
        run,
        simulate,
        store,
        transfer,
        watch,
    )
    from gavotte.errors import AgentError, FormatError, GavotteError, InfeasibleError
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
    from gavotte.transfer import broadcast

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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
