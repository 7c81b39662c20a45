"""Bandwidth guarantees: whether a network can keep them, and how its hosts' agents enforce them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.loading import load_on_first_use

if TYPE_CHECKING:
    from gavotte.guarantee.applying import (
        Applied,
        Cleared,
        GuaranteeStatus,
        GuardedHost,
        HostKept,
        PairState,
        apply,
        check_hosts,
        clear,
        sharing_addresses,
        status,
        warnings_of,
    )
    from gavotte.guarantee.exposition import prometheus
    from gavotte.guarantee.placing import LinkRoom, on_hosts, rooms
    from gavotte.guarantee.planning import Admission, LinkSum, plan

__all__ = [
    "Admission",
    "Applied",
    "Cleared",
    "GuaranteeStatus",
    "GuardedHost",
    "HostKept",
    "LinkRoom",
    "LinkSum",
    "PairState",
    "apply",
    "check_hosts",
    "clear",
    "on_hosts",
    "plan",
    "prometheus",
    "rooms",
    "sharing_addresses",
    "status",
    "warnings_of",
]

load_on_first_use(
    __name__,
    {
        "applying": (
            "Applied",
            "Cleared",
            "GuaranteeStatus",
            "GuardedHost",
            "HostKept",
            "PairState",
            "apply",
            "check_hosts",
            "clear",
            "sharing_addresses",
            "status",
            "warnings_of",
        ),
        "exposition": ("prometheus",),
        "placing": ("LinkRoom", "on_hosts", "rooms"),
        "planning": ("Admission", "LinkSum", "plan"),
    },
)
