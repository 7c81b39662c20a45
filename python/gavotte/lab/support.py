"""Find out whether this machine can hold a lab: start the smallest one that uses every kernel feature."""

from __future__ import annotations

from functools import cache

from gavotte.errors import GavotteError
from gavotte.formats.topology import Topology
from gavotte.lab.control import session

SMALLEST = Topology.model_validate(
    {
        "format": "gavotte/topology/1",
        "switch": [{"name": "switch"}],
        "machine": [{"name": "machine", "switch": "switch", "rate": "1gbit", "machine_rate": "1gbit"}],
        "host": [{"name": "a", "machine": "machine", "egress": "100mbit"}, {"name": "b", "machine": "machine"}],
    }
)


@cache
def missing() -> str:
    """Return what keeps this machine from holding a lab; empty when nothing does. Tries once per process."""
    try:
        with session(SMALLEST, agents=False):
            return ""
    except GavotteError as error:
        return str(error)


def supported() -> bool:
    """Return whether this machine can hold a lab."""
    return not missing()
