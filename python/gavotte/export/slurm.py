"""Write the switches of a Network for Slurm's plugins topology/tree and topology/block.

`topology.conf` of the tree was checked by a slurmctld of version 22.05 (`tests/export/test_slurm_topology.py`). The
rest follows the manual and was not run: only Slurm 25.05 and later read `topology.yaml`, and 23.11 and later have
blocks.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from gavotte.errors import GavotteError
from gavotte.export.labels import Keys
from gavotte.export.tree import Switch, fitting, tiers, tree_of
from gavotte.formats.network import Network

SWITCH_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9_])?")
"""A switch's name of at most 64 characters without any that lists of hosts and settings give a meaning."""

_MOST_SPEED = (1 << 32) - 1
"""Largest LinkSpeed that Slurm reads."""

_MOST_BLOCKS = 1 << 15
"""Most blocks that Slurm combines."""


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


def blocks_conf(network: Network, _: Keys) -> str:
    """Return `topology.conf` of the plugin topology/block, whose blocks are the nearest switches of hosts.

    Raises:
        GavotteError: when the groups form no tree.
    """
    return blocks_of_sizes(network)


def blocks_of_sizes(network: Network, sizes: Sequence[int] = ()) -> str:
    """Return `topology.conf` of the plugin topology/block with other sizes than those of the Network's tiers.

    Args:
        network: the hosts, and the groups that become blocks.
        sizes: sizes at which Slurm combines blocks; empty = those of the tiers.

    Raises:
        GavotteError: when the groups form no tree, or Slurm would refuse the sizes.
    """
    blocks = _blocks(network)
    smallest = min(blocks, key=lambda name: len(blocks[name]))
    if sizes and not 0 < sizes[0] <= len(blocks[smallest]):
        raise GavotteError(
            f"blockSizes: {sizes[0]} is no size of blocks, of which `{smallest}` has {len(blocks[smallest])} hosts",
            hint="begin with the size of the smallest rack or less",
        )
    for one, other in pairwise(sizes):
        levels = other // sizes[0]
        if other <= one or other % sizes[0] or levels.bit_count() != 1 or levels > _MOST_BLOCKS:
            raise GavotteError(
                f"blockSizes: {other} is not {sizes[0]} times a power of two above {one}", hint="use such sizes"
            )
    lines = [f"BlockName={name} Nodes={','.join(hosts)}" for name, hosts in blocks.items()]
    lines.append(f"BlockSizes={','.join(map(str, sizes or _block_sizes(network, blocks)))}")
    return "".join(f"{line}\n" for line in lines)


def topology_yaml(network: Network, _: Keys) -> str:
    """Return `topology.yaml` with a tree, `gavotte`, and with blocks, `gavotte-blocks`, for partitions that name them.

    The tree is for all partitions that name no topology.

    Raises:
        GavotteError: when the groups form no tree.
    """
    lines = ["---", "- topology: gavotte", "  cluster_default: true", "  tree:", "    switches:"]
    for switch in tree_of(network).walk():
        below = ("children", map(_name, switch.children)) if switch.children else ("nodes", switch.hosts)
        lines.append(f"      - switch: {json.dumps(_name(switch))}")
        lines.append(f"        {below[0]}: {json.dumps(','.join(below[1]))}")
    blocks = _blocks(network)
    lines += ["- topology: gavotte-blocks", "  cluster_default: false", "  block:"]
    lines += [f"    block_sizes: {json.dumps(_block_sizes(network, blocks))}", "    blocks:"]
    for name, hosts in blocks.items():
        lines += [f"      - block: {json.dumps(name)}", f"        nodes: {json.dumps(','.join(hosts))}"]
    return "".join(f"{line}\n" for line in lines)


def _blocks(network: Network) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each block. Blocks below one switch follow each other, since Slurm pairs neighbours."""
    return {_name(switch): switch.hosts for switch in tree_of(network).walk() if switch.hosts}


def _block_sizes(network: Network, blocks: dict[str, tuple[str, ...]]) -> list[int]:
    """Return the sizes at which Slurm combines blocks, as `block_record.c` of its topology/block counts them.

    1. The first size is that of the smallest block: no block may be smaller.
    2. Slurm combines 1, 2, 4 and so on blocks in their order. A tier of switches is therefore a size if each of its
       switches has the same number of blocks, and the number is a power of two.
    """
    base = min(map(len, blocks.values()))
    above = tiers(tree_of(network))
    ways = [above[hosts[0]] for hosts in blocks.values()]
    sizes = [base]
    for tier in range(1, len(ways[0])):
        counts = set(Counter(way[tier] for way in ways).values())
        count = counts.pop()
        if counts or count == len(blocks):
            break
        if count.bit_count() == 1 and count <= _MOST_BLOCKS and base * count > sizes[-1]:
            sizes.append(base * count)
    return sizes


def _inner_first(root: Switch) -> list[Switch]:
    """Return all switches, each after those below it: Slurm then knows all children of a line before it reads it."""
    return list(root.walk())[::-1]


def _name(switch: Switch) -> str:
    return fitting(switch.name, SWITCH_NAME)
