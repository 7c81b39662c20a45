"""Write racks as the script by which Hadoop, YARN and Spark ask for the rack of a host.

Hadoop calls `net.topology.script.file.name` with names or addresses of hosts (`ScriptBasedMapping`), and expects a line
for each. Its own policies know nodes and racks, so that the script has the nearest switch of each host alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from gavotte.export.labels import LABEL_VALUE, Keys
from gavotte.export.tree import fitting, tiers, tree_of
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement

_ASK = """for host; do
    rack "$host" || rack "$(getent hosts "$host" | awk '{ print $2; exit }')" || echo /default-rack
done
"""
"""Addresses are looked up. A host that is not in the Network is in Hadoop's own default rack."""


USED = "placed"
"""Rack of the hosts of a Placement."""


def rack_script(network: Network, _: Keys) -> str:
    """Return a script that prints the rack of each host in its arguments: `/NAME`, its nearest switch.

    Raises:
        GavotteError: when the groups form no tree.
    """
    racks: dict[str, list[str]] = {}
    for host, switches in tiers(tree_of(network)).items():
        racks.setdefault(switches[0], []).append(host)
    return _script(racks, "Racks as Gavotte measured them")


def used_script(placement: Placement) -> str:
    """Return a script that prints `/placed` for the hosts of a Placement, and Hadoop's default rack for all others."""
    return _script({USED: list(dict.fromkeys(placement.assignment.values()))}, "The hosts of a Placement are one rack")


def _script(racks: Mapping[str, Sequence[str]], title: str) -> str:
    """Return the script for hosts by rack."""
    lines = ["#!/bin/sh", f"# {title}, for net.topology.script.file.name in Hadoop's core-site.xml"]
    lines += ["rack() {", '    case "$1" in']
    for rack, hosts in racks.items():
        names = " | ".join(f"{name} | {name}.*" for name in map(shlex.quote, hosts))
        lines.append(f"    {names}) echo /{fitting(rack, LABEL_VALUE)} ;;")
    lines += ["    *) return 1 ;;", "    esac", "}"]
    return "".join(f"{line}\n" for line in lines) + _ASK
