"""Inventory: the tenant's hosts and how to reach them (`*.hosts.toml`)."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import AfterValidator, Field, model_validator
from typing_extensions import Self

from gavotte.formats.files.reading import Written, parse_toml, problem, read_noun, write_text
from gavotte.formats.parts.names import (
    MOST_HOSTS,
    Amount,
    CoreSpeed,
    HostName,
    Key,
    check_unique,
    check_unique_hosts,
    not_a_host_name,
)
from gavotte.formats.parts.routes import Route, parse_route

FORMAT = "gavotte/hosts/1"


def is_literal(address: str) -> bool:
    """Return whether an address is an IP address, not a DNS name."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


_ZONE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
"""Names of interfaces that an address can carry. The kernel allows 15 characters."""

MOST_ADDRESSES = 16
"""Most further addresses of one host."""


def without_zone(address: str) -> str:
    """Return an address as packets carry it: `fe80::1` for `fe80::1%eth0`."""
    return address.partition("%")[0]


def _address(text: str) -> str:
    if is_literal(text):
        ip = ipaddress.ip_address(text)
        zone = ip.scope_id if isinstance(ip, ipaddress.IPv6Address) else None
        if ip.version == 6 and ip.is_link_local and zone is None:
            raise problem(
                f"`{text}` is a link-local address without a zone",
                f"name the interface by which other hosts reach it: `{text}%eth0`",
            )
        if zone is not None and not (ip.is_link_local and _ZONE.fullmatch(zone)):
            raise problem(
                f"`{text}` has a zone `{zone}`", "only link-local addresses have one: the name of an interface"
            )
        return str(ip)
    # A name cannot end in a number: `10.0.0.300` is a mistake, not a name.
    if not_a_host_name(text) or text.rpartition(".")[2].isdecimal():
        raise problem(f"`{text}` is not an IP address or DNS name", "write e.g. 10.0.0.1, fd00::1 or web1.example.com")
    return text


def _agent(text: str) -> str:
    parse_route(text)
    return text


class Host(Written):
    """One host of the tenant.

    Attributes:
        name: unique in the inventory.
        address: IP address or DNS name at which other hosts reach it. A name is looked up once, where the
            controller runs. The zone of a link-local address, `fe80::1%eth0`, is the interface of each host that
            connects.
        addresses: further addresses, in order of preference. Each other host uses the first one that its agent
            reaches, `address` before them.
        agent: how the controller reaches its agent: `unix:/path`, `ssh://[user@]host[:port]` or
            `tls://host[:port][?name=NAME]`.
        cpus: cores that tasks may use; if left out, the number that the agent reports.
        memory_bytes: memory that tasks may use, 0 = unknown; if left out, what the agent reports.
        storage_bytes: disk space that tasks may use, 0 = unknown.
        labels: free text, kept and passed on.
        resources: pieces of counted resources that tasks may use, such as `gpu`.
        core_speed: speed of its cores; tasks count their `cpus` in cores of speed 1.
    """

    name: HostName
    address: Annotated[str, AfterValidator(_address)]
    addresses: Annotated[list[Annotated[str, AfterValidator(_address)]], Field(max_length=MOST_ADDRESSES)] = []
    agent: Annotated[str, AfterValidator(_agent)]
    cpus: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    memory_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0
    storage_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0
    labels: dict[str, str] = {}
    resources: dict[Key, Amount] = {}
    core_speed: CoreSpeed = 1.0

    @property
    def ipv6(self) -> bool:
        """Whether other hosts send it IPv6 packets."""
        return ":" in self.address and not self.address.startswith("::ffff:")

    @property
    def route(self) -> Route:
        """Route to the host's agent: the parts of the key `agent`."""
        return parse_route(self.agent)


class Inventory(Written):
    """Hosts in the order in which every matrix names them.

    Attributes:
        format: version of the format.
        keys: folder of `gavotte hosts keys`, for `tls://` agents; relative to the file.
        ssh_config: what the ssh client reads instead of the user's own configuration; relative to the file.
        host: the hosts.
    """

    format: Literal["gavotte/hosts/1"]
    keys: Annotated[str, Field(min_length=1)] | None = None
    ssh_config: Annotated[str, Field(min_length=1)] | None = None
    host: Annotated[list[Host], Field(min_length=1, max_length=MOST_HOSTS)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_unique_hosts("host", [h.name for h in self.host], field="name")
        check_unique("host", [h.address for h in self.host], field="address")
        return self

    @property
    def names(self) -> list[str]:
        """Host names in order."""
        return [host.name for host in self.host]


def read_inventory(path: str | Path) -> Inventory:
    """Read a `*.hosts.toml`. Its relative paths become absolute.

    Raises:
        FormatError: naming file, field and remedy.
    """
    inventory = read_noun(Inventory, path, parse_toml)
    folder = Path(path).absolute().parent
    paths = {key: str(folder / named) for key in ("keys", "ssh_config") if (named := getattr(inventory, key))}
    return inventory.model_copy(update=paths) if paths else inventory


def write_inventory(path: str | Path, inventory: Inventory) -> None:
    """Write a `*.hosts.toml`, whole or not at all."""
    write_text(path, format_inventory(inventory))


def format_inventory(inventory: Inventory) -> str:
    """Return the text of a `*.hosts.toml`. Values that were never stated are left out: the agents will report them."""
    return tomli_w.dumps(inventory.model_dump(exclude_unset=True, exclude_none=True))
