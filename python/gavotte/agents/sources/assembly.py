"""Make an Inventory from names: each host gets an address and a route over SSH."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from gavotte.errors import FormatError
from gavotte.formats.files.reading import validate
from gavotte.formats.inventory import FORMAT, Inventory
from gavotte.formats.parts.routes import SshRoute, TlsRoute

LOOKUPS = 32
"""Most names that are looked up at one time."""

MAX_HOSTS = 4096
"""Most hosts of an Inventory."""


@dataclass(frozen=True)
class Found:
    """One host as a source describes it.

    Attributes:
        name: as the source spells it, and as ssh accepts it.
        lookup: the name or address to resolve.
        where: place in the source, for errors.
        user: login name; None leaves it to ssh.
        cpus: cores or slots granted on the host; None = not stated.
        memory_bytes: memory granted on the host; None = not stated.
        route: how its agent is reached; None = by ssh, by its name and with `user`.
        addresses: further addresses of the host.
        labels: where it is, in the words of its provider.
    """

    name: str
    lookup: str
    where: str
    user: str | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    route: SshRoute | TlsRoute | None = None
    addresses: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


def assemble(source: str, hosts: Sequence[Found], *, ssh_config: str | None = None) -> Inventory:
    """Resolve the hosts' addresses and validate the result.

    Args:
        source: the file or variable, for errors.
        hosts: at least one host.
        ssh_config: what ssh must read to reach them, when it is not the user's own.

    Raises:
        FormatError: naming the source, the place and a remedy.
    """
    if not hosts:
        raise FormatError(source, "", "names no host", "add one, or use another source")
    if len(hosts) > MAX_HOSTS:
        raise FormatError(source, "", f"names {len(hosts)} hosts", f"use at most {MAX_HOSTS}")
    with ThreadPoolExecutor(min(LOOKUPS, len(hosts))) as pool:
        addresses = list(pool.map(lambda host: resolve(host, source, alone=len(hosts) == 1), hosts))
    taken: dict[str, Found] = {}
    for host, address in zip(hosts, addresses, strict=True):
        other = taken.setdefault(address, host)
        if other is not host:
            raise FormatError(
                source, host.where, f"`{host.name}` and `{other.name}` are both {address}", "use only one of them"
            )
    entries = [_entry(*pair) for pair in zip(hosts, addresses, strict=True)]
    document: dict[str, Any] = {"format": FORMAT, "host": entries}
    if ssh_config:
        document["ssh_config"] = ssh_config
    return validate(Inventory, document, source)


def resolve(host: Found, source: str, *, alone: bool) -> str:
    """Look up an address that other hosts can use.

    Args:
        host: the host whose `lookup` to resolve.
        source: for errors.
        alone: whether it is the only host, so that a loopback address is enough.

    Raises:
        FormatError: when there is none.
    """
    try:
        answers = socket.getaddrinfo(host.lookup, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) and error.strerror else "not a name"
        raise FormatError(
            source,
            host.where,
            f"`{host.lookup}` does not resolve here ({reason})",
            "correct the name, or add it to /etc/hosts",
        ) from None
    addresses = [str(answer[4][0]) for answer in answers]
    # Debian gives a host's own name to 127.0.1.1.
    outside = [address for address in addresses if not ipaddress.ip_address(address).is_loopback]
    if not outside and not alone:
        raise FormatError(
            source,
            host.where,
            f"`{host.lookup}` resolves to {addresses[0]}, which other hosts cannot reach",
            "correct /etc/hosts, or use an inventory with its address",
        )
    return (outside or addresses)[0]


def host_name(text: str) -> str:
    """Return the nearest name that an Inventory allows: colons, % and + become dashes."""
    return re.sub(r"\.{2,}", ".", re.sub(r"[:%+]+", "-", text)).strip("-.")


def _entry(host: Found, address: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": host_name(host.name),
        "address": address,
        "agent": str(host.route or SshRoute(host.name, host.user)),
    }
    if host.addresses:
        entry["addresses"] = list(host.addresses)
    if host.labels:
        entry["labels"] = dict(host.labels)
    if host.cpus is not None:
        entry["cpus"] = host.cpus
    if host.memory_bytes is not None:
        entry["memory_bytes"] = host.memory_bytes
    return entry
