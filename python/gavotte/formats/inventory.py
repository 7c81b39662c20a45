"""Inventory: the tenant's hosts and how to reach them (`*.hosts.toml`)."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal, Self

import tomli_w
from pydantic import AfterValidator, Field, model_validator

from gavotte.formats.names import MOST_HOSTS, HostName, check_unique
from gavotte.formats.reading import Written, parse_toml, problem, read_noun, write_text
from gavotte.formats.routes import Route, parse_route

FORMAT = "gavotte/hosts/1"


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise problem(f"`{text}` is not an IP address", "write an IPv4 or IPv6 literal") from None


def _agent(text: str) -> str:
    parse_route(text)
    return text


class Host(Written):
    """One host of the tenant.

    Attributes:
        name: unique in the inventory.
        address: where other hosts reach it, an IP literal.
        agent: where the controller reaches its agent: `unix:/path`, `ssh://[user@]host[:port]` or
            `tls://host[:port]`.
        cpus: cores that tasks may use; if left out, what the agent finds on the host.
        memory_bytes: memory that tasks may use, 0 = unknown; if left out, what the agent finds on the host.
        storage_bytes: room on disk that tasks may use, 0 = unknown.
        labels: free text, kept and passed on.
    """

    name: HostName
    address: Annotated[str, AfterValidator(_address)]
    agent: Annotated[str, AfterValidator(_agent)]
    cpus: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    memory_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0
    storage_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0
    labels: dict[str, str] = {}

    @property
    def route(self) -> Route:
        """`agent`, taken apart."""
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
        check_unique("host", [h.name for h in self.host], field="name")
        check_unique("host", [h.address for h in self.host], field="address")
        return self

    @property
    def names(self) -> list[str]:
        """Host names in order."""
        return [host.name for host in self.host]


def read_inventory(path: str | Path) -> Inventory:
    """Reads a `*.hosts.toml`; the paths in it become absolute.

    Raises:
        FormatError: naming file, field and remedy.
    """
    inventory = read_noun(Inventory, path, parse_toml)
    folder = Path(path).absolute().parent
    paths = {key: str(folder / named) for key in ("keys", "ssh_config") if (named := getattr(inventory, key))}
    return inventory.model_copy(update=paths) if paths else inventory


def write_inventory(path: str | Path, inventory: Inventory) -> None:
    """Writes a `*.hosts.toml`, whole or not at all."""
    write_text(path, format_inventory(inventory))


def format_inventory(inventory: Inventory) -> str:
    """Returns the text of a `*.hosts.toml`. What was never stated is left out: the agents will tell it."""
    return tomli_w.dumps(inventory.model_dump(exclude_unset=True, exclude_none=True))
