"""Write the racks of a Network as the script by which Hadoop, YARN and Spark ask for the rack of a host.

Hadoop calls `net.topology.script.file.name` with names or addresses of hosts (`ScriptBasedMapping`), and expects a line
for each. Its own policies know nodes and racks, so that the script has the nearest switch of each host alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gavotte.export.labels import LABEL_VALUE, Keys
from gavotte.export.tree import fitting, tiers, tree_of
from gavotte.formats.network import Network

_ASK = """for host; do
    rack "$host" || rack "$(getent hosts "$host" | awk '{ print $2; exit }')" || echo /default-rack
done
"""
"""Addresses are looked up. A host that is not in the Network is in Hadoop's own default rack."""


def rack_script(network: Network, _: Keys) -> str:
    """Return a script that prints the rack of each host in its arguments: `/NAME`, its nearest switch.

    Raises:
        GavotteError: when the groups form no tree.
    """
    return "".join(f"{line}\n" for line in _lines(network)) + _ASK


def _lines(network: Network) -> Iterator[str]:
    yield "#!/bin/sh"
    yield "# Racks as Gavotte measured them, for net.topology.script.file.name in Hadoop's core-site.xml"
    yield "rack() {"
    yield '    case "$1" in'
    racks: dict[str, list[str]] = {}
    for host, switches in tiers(tree_of(network)).items():
        racks.setdefault(switches[0], []).append(host)
    for rack, hosts in racks.items():
        names = " | ".join(f"{name} | {name}.*" for name in map(shlex.quote, hosts))
        yield f"    {names}) echo /{fitting(rack, LABEL_VALUE)} ;;"
    yield "    *) return 1 ;;"
    yield "    esac"
    yield "}"
