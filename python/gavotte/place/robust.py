"""Worst case of a network whose rates are known only as intervals.

More of any rate never makes a placement slower, so the worst of all networks within the intervals has every rate at its
lower end. The placement that is best there has the least worst case (robust optimisation over a box).
"""

from __future__ import annotations

from gavotte.errors import GavotteError
from gavotte.formats.network import Network


def worst_case(network: Network) -> Network:
    """Return the network with each rate at the lower end of its interval.

    Raises:
        GavotteError: when the network has no intervals.
    """
    hosts = [
        host.model_copy(
            update={
                "egress_bps": _lower(host.egress_bps, host.egress_low_bps),
                "ingress_bps": _lower(host.ingress_bps, host.ingress_low_bps),
            }
        )
        for host in network.hosts
    ]
    if not network.rate_low_bps and all(
        host.egress_low_bps is None and host.ingress_low_bps is None for host in network.hosts
    ):
        raise GavotteError(
            "the network has no intervals of rates", hint="add `rate_low_bps`, or `egress_low_bps` of hosts"
        )
    rates = network.rate_bps
    if network.rate_low_bps:
        rates = [
            [_lower(rate, low) for rate, low in zip(row, lows, strict=True)]
            for row, lows in zip(network.rate_bps, network.rate_low_bps, strict=True)
        ]
    return network.model_copy(update={"hosts": hosts, "rate_bps": rates})


def _lower(rate_bps: float | None, low_bps: float | None) -> float | None:
    if rate_bps is None or low_bps is None:
        return rate_bps if low_bps is None else low_bps
    return min(rate_bps, low_bps)
