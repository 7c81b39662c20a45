"""Addresses of hosts whose Inventory gives a DNS name: looked up once a process, and kept."""

from __future__ import annotations

import ipaddress
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from gavotte.errors import GavotteError
from gavotte.formats.inventory import Host, Inventory, is_literal

logger = logging.getLogger(__name__)

LOOKUPS = 32
"""Most names that are looked up at one time."""


def with_addresses(inventory: Inventory) -> Inventory:
    """Return the Inventory with each DNS name in `address` replaced by the IP address that it stands for.

    Raises:
        GavotteError: for the first host without an address that others can reach.
    """
    complete, unresolved = addressed(inventory)
    for name, reason in unresolved.items():
        raise GavotteError(f"host `{name}`: {reason}", hint="correct `address`, or add the name to /etc/hosts")
    return complete


def addressed(inventory: Inventory) -> tuple[Inventory, dict[str, str]]:
    """Replace each DNS name in `address` and `addresses` by the IP address that it stands for.

    The address of a name is kept as long as this process runs, so that a run never changes it half-way.

    Returns:
        the Inventory, and host to reason for each host without an address that others can reach. Such a host keeps its
        name as `address`. A further address that does not resolve is left out.
    """
    inventory = _further(inventory)
    named = [host for host in inventory.host if not is_literal(host.address)]
    if not named:
        return inventory, {}
    alone = len(inventory.host) == 1
    with ThreadPoolExecutor(min(LOOKUPS, len(named))) as pool:
        outcomes = list(pool.map(lambda host: _address(host, alone=alone), named))
    owner = {host.address: host.name for host in inventory.host if is_literal(host.address)}
    address: dict[str, str] = {}
    unresolved: dict[str, str] = {}
    for host, (ip, reason) in zip(named, outcomes, strict=True):
        if reason:
            unresolved[host.name] = reason
        elif (other := owner.setdefault(ip, host.name)) != host.name:
            unresolved[host.name] = f"its address `{host.address}` resolves to {ip}, which is also that of {other}"
        else:
            address[host.name] = ip
    hosts = [
        host.model_copy(update={"address": address[host.name]}) if host.name in address else host
        for host in inventory.host
    ]
    return inventory.model_copy(update={"host": hosts}), unresolved


def _address(host: Host, *, alone: bool) -> tuple[str, str]:
    """Return a host's IP address, or empty and the reason why there is none."""
    try:
        addresses = _look_up(host.address)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) and error.strerror else "not a name"
        return "", f"its address `{host.address}` does not resolve here ({reason})"
    # Debian gives a host's own name to 127.0.1.1. A link-local address has another zone on each host.
    outside = [each for each in addresses if not _is_local(each)]
    if not outside and not alone:
        return "", f"its address `{host.address}` resolves to {addresses[0]}, which others cannot reach"
    return (outside or list(addresses))[0], ""


def _further(inventory: Inventory) -> Inventory:
    """Resolve the DNS names in `addresses`."""
    if all(is_literal(address) for host in inventory.host for address in host.addresses):
        return inventory
    hosts = []
    for host in inventory.host:
        kept = []
        for address in host.addresses:
            if is_literal(address):
                kept.append(address)
                continue
            ip, reason = _address(host.model_copy(update={"address": address}), alone=False)
            if reason:
                logger.warning("%s: %s", host.name, reason)
            else:
                kept.append(ip)
        hosts.append(host.model_copy(update={"addresses": kept}))
    return inventory.model_copy(update={"host": hosts})


def _is_local(address: str) -> bool:
    ip = ipaddress.ip_address(address)
    return ip.is_loopback or (ip.version == 6 and ip.is_link_local)


@cache
def _look_up(name: str) -> tuple[str, ...]:
    """Return the addresses of a name, in the system's order of preference. A failure is not kept."""
    answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    addresses = tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))
    logger.info("%s is %s", name, ", ".join(addresses))
    return addresses
