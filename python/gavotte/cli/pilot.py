"""`gavotte measure --dry-run --pilot`: print what a pilot found between hosts that no Network covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gavotte.cli.output import note, warn
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.measure import Pilot

ALIKE = 1.02
"""Rates that differ by at most this factor are printed as one."""


def pilot_note(pilot: Pilot) -> None:
    """Print what a pilot has sent and found."""
    warn(pilot.warnings)
    known_bps = sorted(host.egress_bps for host in pilot.network.hosts if host.egress_bps is not None)
    rates = " to ".join(format_rate(bps) for bps in (known_bps[:1] + known_bps[-1:])) or "at unknown rates"
    if known_bps and known_bps[-1] <= ALIKE * known_bps[0]:
        rates = format_rate(known_bps[0])
    full = "the pilot filled no shared link"
    if pilot.shared:
        link, bps = min(pilot.shared.items(), key=lambda shared: shared[1])
        full = f"{counted(len(pilot.shared), 'shared link')} filled, for example {link} at {format_rate(bps)}"
    if pilot.untested:
        full += f", {len(pilot.untested)} not tested within the budget"
    note(f"pilot: {format_bytes(pilot.bytes_sent)} sent in {pilot.seconds:.1f} s; hosts send {rates}; {full}")


def pilot_document(pilot: Pilot) -> dict[str, object]:
    """Return the results of a pilot as `--json` prints them."""
    return {
        "bytes_sent": pilot.bytes_sent,
        "measure_s": pilot.seconds,
        "egress_bps": {host.name: host.egress_bps for host in pilot.network.hosts},
        "shared": [{"link": link, "rate_bps": bps} for link, bps in pilot.shared.items()],
        "untested": pilot.untested,
        "missing": pilot.missing,
    }
