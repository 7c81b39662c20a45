"""Guarantees that limit what hosts send while they are measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gavotte.agents.neighbours import STANDING, Neighbour

SHOWN = 8
"""Hosts that a warning names."""


def run_warnings(runs: Iterable[Neighbour], guaranteed_bps: Mapping[str, float], consequence: str) -> Iterator[str]:
    """Yield a warning of each other run, except of guarantees where `guarantees_warning` names what they limit."""
    yield from (run.warning(consequence) for run in runs if not (guaranteed_bps and run.kind == STANDING))


def guarantees_warning(guaranteed_bps: Mapping[str, float], what: str) -> Iterator[str]:
    """Yield a warning with the remedy, if guarantees limit hosts.

    Args:
        guaranteed_bps: the guarantee of each host whose sending one limits.
        what: which of the results are affected.
    """
    if not guaranteed_bps:
        return
    names = sorted(guaranteed_bps)
    more = f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
    yield (
        f"bandwidth guarantees limit what {', '.join(names[:SHOWN])}{more} may send, so {what} may be those of "
        "the guarantees' limits instead of the network's; run `gavotte guarantee clear`, measure again, and apply them "
        "afterwards"
    )
