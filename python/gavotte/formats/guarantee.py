"""Guarantee: the least that hosts may send and receive, regardless of other traffic (`*.guarantee.toml`).

Rates are wire rates as a limiter counts them, as in a Topology: 1514 bytes for a full frame.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import Field, model_validator
from typing_extensions import Self

from gavotte.formats.files.reading import Written, parse_toml, problem, read_noun, write_text
from gavotte.formats.parts.names import (
    MOST_HOSTS,
    HostName,
    Label,
    check_known,
    check_unique,
    check_unique_hosts,
    known_as,
)
from gavotte.formats.parts.rate_fields import Rate
from gavotte.formats.parts.rates import format_rate

FORMAT = "gavotte/guarantee/1"

DEFAULT_HEADROOM = 0.1
"""Default headroom, after ElasticSwitch, section 7.1: guarantees on a link of 1000 Mbit/s sum to less than 900."""

DIRECTIONS = ("egress", "ingress")


class HostGuarantee(Written):
    """The hose of one host, or of a container with a network of its own.

    Attributes:
        host: its name.
        on: for a container: the host whose agent enforces its guarantee.
        address: for a container: its address, to which the other hosts have a route.
        device: for a container: the host's end of its veth.
        cgroup: for a container, instead of `device`: its cgroup, as a path below `/sys/fs/cgroup`.
        egress: what it may send to all others together at least, wire bit/s; None = nothing is guaranteed.
        ingress: what it may receive from all others together at least, wire bit/s.
        egress_limit: what it may send at most, None = all that the network carries.
        ingress_limit: what it may receive at most.
    """

    host: HostName
    on: HostName | None = None
    address: Annotated[str, Field(max_length=45)] | None = None
    device: Annotated[str, Field(pattern=r"^[^/\s]{1,15}$")] | None = None
    cgroup: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    egress: Rate | None = None
    ingress: Rate | None = None
    egress_limit: Rate | None = None
    ingress_limit: Rate | None = None


class Tenant(Written):
    """Hosts whose guarantees count together.

    Attributes:
        name: unique among tenants.
        hosts: hosts of the file; each belongs to at most one tenant.
        egress: what they may send together at least, wire bit/s, regardless of which of them sends; None = the sum of
            their own guarantees.
        ingress: what they may receive together at least.
        egress_limit: what they may send together at most.
        ingress_limit: what they may receive together at most.
    """

    name: Label
    hosts: Annotated[list[HostName], Field(min_length=1, max_length=MOST_HOSTS)]
    egress: Rate | None = None
    ingress: Rate | None = None
    egress_limit: Rate | None = None
    ingress_limit: Rate | None = None


class Guarantee(Written):
    """All guarantees of a network.

    Attributes:
        format: version of the format.
        headroom: share of every link that is not guaranteed to any host.
        mode: signs of congestion: `auto`, marks, drops and how long packets wait; `ecn`, marks and drops, and only
            where nothing marks how long packets wait; `loss`, drops and how long packets wait.
        remains: what stays on a host whose agent stops or is killed: `static`, each pair's guarantee as its limit until
            an agent starts on that host again, or `nothing`, so that the host can take what others are guaranteed.
        guarantee: one entry per host. Hosts that are not named have no guarantee and are not slowed.
        tenant: totals over hosts.
    """

    format: Literal["gavotte/guarantee/1"]
    headroom: Annotated[float, Field(ge=0, le=0.9)] = DEFAULT_HEADROOM
    mode: Literal["auto", "ecn", "loss"] = "auto"
    remains: Literal["nothing", "static"] = "static"
    guarantee: Annotated[list[HostGuarantee], Field(min_length=1, max_length=MOST_HOSTS)]
    tenant: Annotated[list[Tenant], Field(max_length=MOST_HOSTS)] = []

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_unique_hosts("guarantee", [each.host for each in self.guarantee], field="host")
        for index, own in enumerate(self.guarantee):
            if own.egress is None and own.ingress is None:
                raise problem(
                    "guarantees nothing", 'write egress = "..." or ingress = "..."', field=f"guarantee[{index}]"
                )
            _check_limits(own, f"guarantee[{index}]")
            _check_container(own, f"guarantee[{index}]", self.guarantee)
        check_unique("tenant", [each.name for each in self.tenant], field="name")
        known = set(self.hosts)
        tenant_of: dict[str, str] = {}
        for index, tenant in enumerate(self.tenant):
            for place, host in enumerate(tenant.hosts):
                here = f"tenant[{index}].hosts[{place}]"
                check_known(host, known, field=here, what="host with a guarantee")
                if host in tenant_of:
                    raise problem(f"`{host}` is a host of tenant `{tenant_of[host]}`", "name it once", field=here)
                tenant_of[host] = tenant.name
            _check_limits(tenant, f"tenant[{index}]")
            for direction in DIRECTIONS:
                total, own_bps = getattr(tenant, direction), self.sum_bps(direction, tenant.hosts)
                if total is not None and total < own_bps:
                    raise problem(
                        f"{format_rate(total)} is below the sum of its hosts, {format_rate(own_bps)}",
                        "raise it, or leave it out",
                        field=f"tenant[{index}].{direction}",
                    )
        return self

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts with a guarantee, in order."""
        return [each.host for each in self.guarantee]

    @property
    def agents(self) -> list[str]:
        """Names of the hosts whose agents enforce it, in order: hosts with a guarantee, and those of containers."""
        return list(dict.fromkeys(each.on or each.host for each in self.guarantee))

    @property
    def senders(self) -> list[str]:
        """Names of the hosts whose sending agents limit: those with an `egress` of their own or of their tenant."""
        shared = {host for tenant in self.tenant if tenant.egress is not None for host in tenant.hosts}
        return [each.host for each in self.guarantee if each.egress is not None or each.host in shared]

    @property
    def unlimited_receivers(self) -> list[str]:
        """Names of the hosts with an `ingress` to which no other host of the file sends under a limit.

        Agents keep a guarantee by limiting what senders send. What such a host may receive is therefore not kept.
        """
        senders = set(self.senders)
        return [each.host for each in self.guarantee if each.ingress is not None and not senders - {each.host}]

    @property
    def folded(self) -> Guarantee:
        """Return the Guarantee with containers' guarantees added to those of their hosts, as the network sees it."""
        at = {each.host: each.on or each.host for each in self.guarantee}

        def sum_bps(host: str, direction: str) -> float | None:
            return self.sum_bps(direction, [name for name in at if at[name] == host]) or None

        hosts = [
            HostGuarantee.model_construct(host=host, egress=sum_bps(host, "egress"), ingress=sum_bps(host, "ingress"))
            for host in self.agents
        ]
        tenants = [
            tenant.model_copy(update={"hosts": list(dict.fromkeys(at[host] for host in tenant.hosts))})
            for tenant in self.tenant
        ]
        return self.model_copy(update={"guarantee": hosts, "tenant": tenants})

    def spelled_as(self, known: Collection[str]) -> Self:
        """Return the Guarantee with each host's name in the upper and lower case that `known` uses for the host."""
        entries = [
            each.model_copy(update={"host": known_as(each.host, known), "on": each.on and known_as(each.on, known)})
            for each in self.guarantee
        ]
        tenants = [
            each.model_copy(update={"hosts": [known_as(host, known) for host in each.hosts]}) for each in self.tenant
        ]
        return self.model_copy(update={"guarantee": entries, "tenant": tenants})

    def sum_bps(self, direction: str, hosts: list[str] | None = None) -> float:
        """Return what these hosts, or all, are guaranteed together by their own entries, wire bit/s.

        Args:
            direction: `egress` or `ingress`.
            hosts: names; names that the file does not have add nothing.
        """
        chosen = None if hosts is None else set(hosts)
        named = [each for each in self.guarantee if chosen is None or each.host in chosen]
        return sum(getattr(each, direction) or 0.0 for each in named)


def _check_limits(entry: HostGuarantee | Tenant, field: str) -> None:
    for direction in DIRECTIONS:
        least, most = getattr(entry, direction), getattr(entry, f"{direction}_limit")
        if least is not None and most is not None and most < least:
            raise problem(
                f"{format_rate(most)} is below the guarantee of {format_rate(least)}",
                "raise the limit, or lower the guarantee",
                field=f"{field}.{direction}_limit",
            )


def write_guarantee(path: str | Path, guarantee: Guarantee) -> None:
    """Write a `*.guarantee.toml`; rates in whole bit/s."""
    content = guarantee.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    for entry in [*content["guarantee"], *content.get("tenant", [])]:
        entry |= {key: f"{rate:.0f}bit" for key, rate in entry.items() if isinstance(rate, float)}
    write_text(path, tomli_w.dumps(content))


def _check_container(entry: HostGuarantee, field: str, entries: list[HostGuarantee]) -> None:
    """Check that a container has its host and address, and that a host of the inventory has neither."""
    if entry.on is None:
        for name in ("address", "device", "cgroup"):
            if getattr(entry, name) is not None:
                raise problem(
                    "applies to containers only", 'write on = "HOST", the host that it is on', field=f"{field}.{name}"
                )
        return
    if any(other.on is not None and other.host == entry.on for other in entries):
        raise problem(f"`{entry.on}` is a container itself", "name a host of the inventory", field=f"{field}.on")
    if (entry.device is None) == (entry.cgroup is None):
        raise problem(
            "a container needs exactly one of device and cgroup",
            'write either device = "..." or cgroup = "..."',
            field=field,
        )
    if entry.address is None:
        raise problem("a container without address", 'write address = "..."', field=field)
    try:
        ip_address(entry.address)
    except ValueError:
        raise problem(
            f"`{entry.address}` is not an address", "use e.g. 10.0.0.9 or fd00::9", field=f"{field}.address"
        ) from None


def read_guarantee(path: str | Path) -> Guarantee:
    """Read a `*.guarantee.toml`.

    Raises:
        FormatError: naming file, field and remedy.
    """
    return read_noun(Guarantee, path, parse_toml)
