"""What a Network says about the limits of hosts, machines and racks: the same words in commands and reports."""

from __future__ import annotations

from dataclasses import dataclass

from gavotte.formats.network import LinkVerdict, Network


@dataclass(frozen=True)
class Limit:
    """What is known about the most that a host or group can send, or receive.

    Attributes:
        rate_bps: the limit, or the highest rate that was seen; None = nothing is known.
        certain: whether experiments found the limit. Otherwise it is at least `rate_bps`.
    """

    rate_bps: float | None
    certain: bool


@dataclass(frozen=True)
class LinkRow:
    """One verdict of a Network as tables show it.

    Attributes:
        verdict: the verdict.
        least_bps: the highest rate seen on the link: in experiments and, for a host's link, on any path of the host.
    """

    verdict: LinkVerdict
    least_bps: float | None

    @property
    def reason(self) -> str:
        """The reason why nothing is known, or the first experiment."""
        return self.verdict.evidence.partition("; ")[0]

    @property
    def informative(self) -> bool:
        """Whether any experiment shows something about the link."""
        return self.verdict.verdict != "unknown"


def limits_of(network: Network) -> dict[str, Limit]:
    """Return the limit of each host and group by the name of its end of a link, `out of HOST` or `into GROUP`."""
    verdicts = {end: verdict for verdict in network.verdicts for end in ends_of(verdict)}
    ends = {f"out of {host.name}": host.egress_bps for host in network.hosts}
    ends |= {f"into {host.name}": host.ingress_bps for host in network.hosts}
    ends |= {f"out of {group.name}": group.up_bps for group in network.groups}
    ends |= {f"into {group.name}": group.down_bps for group in network.groups}
    limits = {}
    for end, cap_bps in ends.items():
        verdict = verdicts.get(end)
        if verdict is not None and verdict.rate_bps:
            limits[end] = Limit(cap_bps, certain=True)
        else:
            seen_bps = max(cap_bps or 0.0, verdict.at_least_bps or 0.0 if verdict is not None else 0.0)
            limits[end] = Limit(seen_bps or None, certain=False)
    return limits


def link_rows(network: Network) -> list[LinkRow]:
    """Return the verdicts of a Network: limits first, the tightest on top, then what stayed open, then the unknown."""
    limits = limits_of(network)

    def least_bps(verdict: LinkVerdict) -> float | None:
        ends = () if verdict.rate_bps else ends_of(verdict)
        seen = [limit.rate_bps or 0.0 for end in ends if (limit := limits.get(end)) is not None]
        return max([verdict.at_least_bps or 0.0, *seen]) or None

    def order(row: LinkRow) -> tuple[bool, float, bool]:
        return (not row.verdict.rate_bps, row.verdict.rate_bps or 0.0, not row.informative)

    return sorted((LinkRow(verdict, least_bps(verdict)) for verdict in network.verdicts), key=order)


def ends_of(verdict: LinkVerdict) -> list[str]:
    """Return the ends of a verdict's link: several if no experiment could distinguish them."""
    return verdict.link.split(", ")
