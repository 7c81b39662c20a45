"""Spell host names as the inventory does: users and Networks may write them in another case."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as
from gavotte.formats.parts.transfer import Copies


def spelled_network(network: Network, names: Collection[str]) -> Network:
    """Return a Network whose hosts and groups spell the inventory's hosts as it does."""
    own = {name: known_as(name, names) for name in network.names}
    if all(own[name] == name for name in own):
        return network
    hosts = [host.model_copy(update={"name": own[host.name]}) for host in network.hosts]
    groups = [
        group.model_copy(update={"members": [own[member] for member in group.members]}) for group in network.groups
    ]
    return network.model_copy(update={"hosts": hosts, "groups": groups})


def spelled_copies(copies: Copies, names: Collection[str]) -> Copies:
    """Return the copies of a broadcast whose hosts are spelled as in the inventory."""
    elsewhere = {known_as(name, names): path for name, path in copies.elsewhere.items()}
    return dataclasses.replace(copies, source=known_as(copies.source, names), elsewhere=elsewhere)
