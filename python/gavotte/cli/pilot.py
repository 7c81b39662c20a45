"""The pilot of `gavotte measure`: whether one is taken, what it costs, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gavotte.cli.output import note, warn
from gavotte.cli.progress import progress
from gavotte.errors import AgentError, GavotteError, NoAgentsError
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rates import format_bytes, format_rate

if TYPE_CHECKING:
    from gavotte.agents import Reach
    from gavotte.measure import MeasureQuestion, Pilot

ALIKE = 1.02
"""Rates that differ by at most this factor are printed as one."""

FEW_HOSTS = 5
"""Most hosts for which an automatic pilot tests no links, unless experiments follow.

A pilot sends N of the N (N - 1) probes of N hosts, and the tests of their links take most of its time. Racks of
this few hosts change the cost by less than a factor of two. A dry run has nothing else to do.
"""

SHARE = 4
"""An automatic pilot sends at most a budget of bytes divided by this."""


@dataclass(frozen=True)
class PilotTerms:
    """How to take a pilot.

    Attributes:
        asked: whether the user asked for it. If not, the estimate is given without it if it fails.
        dry_run: whether no measurement follows, so that the whole budget is the measurement's.
        take_over: end the user's own other measurement.
        reach: open connections to the agents; None = the pilot opens its own.
    """

    asked: bool = False
    dry_run: bool = False
    take_over: bool = False
    reach: Reach | None = None


def check_pilot(question: MeasureQuestion, wanted: bool | None) -> None:
    """Refuse `--pilot` with a Network.

    Raises:
        GavotteError: with the remedy.
    """
    if wanted and question.known is not None:
        raise GavotteError(
            "--pilot predicts the cost of hosts that no Network covers", hint="leave out --pilot, or --network"
        )


def needs_pilot(question: MeasureQuestion, wanted: bool | None) -> bool:
    """Return whether to take a pilot: as the user wants, or where an estimate without one may be far off.

    Args:
        question: the measurement.
        wanted: `--pilot` or `--no-pilot`; None = neither.
    """
    return bool(question.doubt) if wanted is None else wanted


def _tests_links(question: MeasureQuestion, terms: PilotTerms) -> bool:
    """Return whether a pilot also tests the links that pairs may share."""
    return terms.asked or terms.dry_run or question.sharing or len(question.inventory.host) > FEW_HOSTS


def pilot_of(question: MeasureQuestion, terms: PilotTerms) -> Pilot | None:
    """Announce a pilot, take it, and print what it found.

    Args:
        question: the measurement whose cost is to be predicted.
        terms: how to take it.

    Returns:
        the pilot; None if it failed, or if UDP is blocked between few hosts: the pilot predicts no path by TCP.

    Raises:
        AgentError: when it failed and the user asked for it, or no agents can be used and a measurement would follow.
    """
    from gavotte.measure import pilot_cost, take_pilot
    from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS

    limits = question.limits
    most_bytes = limits.bytes if terms.asked or limits.bytes is None else limits.bytes // SHARE
    links = _tests_links(question, terms)
    cost = pilot_cost(question.inventory.names, most_bytes=most_bytes, price_per_gb=limits.price_per_gb, links=links)
    money = f", {cost.money:.2f} in money" if limits.price_per_gb else ""
    why = "" if terms.asked else f" because {question.doubt} (--no-pilot refuses it)"
    note(
        f"taking a pilot first{why}: about {cost.seconds:.1f} s, {format_bytes(cost.bytes)}{money} if hosts send "
        f"{format_rate(ASSUMED_RATE_BPS)}, at most {format_bytes(cost.max_bytes)}"
    )
    try:
        with progress("taking a pilot"):
            pilot = take_pilot(
                question.inventory,
                seed=question.seed,
                most_bytes=most_bytes,
                take_over=terms.take_over,
                reach=terms.reach,
                links=links,
            )
    except AgentError as error:
        # A measurement would wait for the same agents again, and then fail.
        if terms.asked or (isinstance(error, NoAgentsError) and not terms.dry_run):
            raise
        warn([f"no pilot: {error.message}; the estimate may be off by more than a factor of two"])
        return None
    pilot_note(pilot)
    if pilot.blocked and not links:
        warn(["UDP is blocked on a path: the estimate may be off by more than a factor of two"])
        return None
    return pilot


def pilot_note(pilot: Pilot) -> None:
    """Print what a pilot has sent and found."""
    warn(pilot.warnings)
    known_bps = sorted(host.egress_bps for host in pilot.network.hosts if host.egress_bps is not None)
    rates = " to ".join(format_rate(bps) for bps in (known_bps[:1] + known_bps[-1:])) or "at unknown rates"
    if known_bps and known_bps[-1] <= ALIKE * known_bps[0]:
        rates = format_rate(known_bps[0])
    full = "the pilot filled no shared link" if pilot.links else "links were not tested"
    if pilot.shared:
        link, bps = min(pilot.shared.items(), key=lambda shared: shared[1])
        full = f"{counted(len(pilot.shared), 'shared link')} filled, for example {link} at {format_rate(bps)}"
    if pilot.untested:
        full += f", {len(pilot.untested)} not tested within the budget"
    note(f"pilot: {format_bytes(pilot.bytes_sent)} sent in {pilot.seconds:.1f} s; hosts send {rates}; {full}")


def pilot_document(pilot: Pilot | None) -> dict[str, object] | None:
    """Return the results of a pilot as `--json` prints them; None without one."""
    if pilot is None:
        return None
    return {
        "bytes_sent": pilot.bytes_sent,
        "measure_s": pilot.seconds,
        "egress_bps": {host.name: host.egress_bps for host in pilot.network.hosts},
        "shared": [{"link": link, "rate_bps": bps} for link, bps in pilot.shared.items()],
        "untested": pilot.untested,
        "missing": pilot.missing,
    }
