"""Write the switches of a Network for Slurm's plugin topology/tree.

`topology.conf` was checked by a slurmctld of version 22.05 (`tests/export/test_slurm_topology.py`). `topology.yaml` is
written by the manual of Slurm 26.11 and was not run: only Slurm 25.05 and later read it.
"""

from __future__ import annotations

import json
import re

from gavotte.export.labels import Keys
from gavotte.export.tree import Switch, fitting, tree_of
from gavotte.formats.network import Network

SWITCH_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9_])?")
"""A switch's name of at most 64 characters without any that lists of hosts and settings give a meaning."""

_MOST_SPEED = (1 << 32) - 1
"""Largest LinkSpeed that Slurm reads."""


def topology_conf(network: Network, _: Keys) -> str:
    """Return `topology.conf`, with the links' rates in Mbit/s as LinkSpeed, which Slurm shows but does not use yet.

    Raises:
        GavotteError: when the groups form no tree.
    """
    lines = []
    for switch in _inner_first(tree_of(network)):
        words = [f"SwitchName={_name(switch)}"]
        if switch.children:
            words.append(f"Switches={','.join(map(_name, switch.children))}")
        else:
            words.append(f"Nodes={','.join(switch.hosts)}")
        if switch.rate_bps is not None:
            words.append(f"LinkSpeed={min(max(round(switch.rate_bps / 1e6), 1), _MOST_SPEED)}")
        lines.append(" ".join(words))
    return "".join(f"{line}\n" for line in lines)


def topology_yaml(network: Network, _: Keys) -> str:
    """Return `topology.yaml` with one topology, `gavotte`, for all partitions that name no other one.

    Raises:
        GavotteError: when the groups form no tree.
    """
    lines = ["---", "- topology: gavotte", "  cluster_default: true", "  tree:", "    switches:"]
    for switch in tree_of(network).walk():
        below = ("children", map(_name, switch.children)) if switch.children else ("nodes", switch.hosts)
        lines.append(f"      - switch: {json.dumps(_name(switch))}")
        lines.append(f"        {below[0]}: {json.dumps(','.join(below[1]))}")
    return "".join(f"{line}\n" for line in lines)


def _inner_first(root: Switch) -> list[Switch]:
    """Return all switches, each after those below it: Slurm then knows all children of a line before it reads it."""
    return list(root.walk())[::-1]


def _name(switch: Switch) -> str:
    return fitting(switch.name, SWITCH_NAME)
