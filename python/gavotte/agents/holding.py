"""Hold the agents of an inventory for one run, exclusively or together with other runs."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from gavotte.agents.calls import aside
from gavotte.agents.fleet import LEAST_LEASE_S, RENEWALS, Budget, Fleet
from gavotte.agents.reach import Reach, reaching
from gavotte.errors import BusyError, NoAgentsError
from gavotte.formats.inventory import Inventory

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""Time to wait for other runs to move no more bytes between agents. `gavotte watch` needs less."""

HELD_PATIENCE_S = 6.0
"""Time to wait for agents that other runs hold. By then it shows whether a run's controller renews a short lease. If
the lease is longer, this run waits longer."""

RENEWALS_MISSED = 1.5
"""Renewal intervals of the other run after which its controller counts as gone. We then wait until its lease ends."""

LONGEST_PAUSE_S = 0.9
"""Longest pause between two attempts to enrol agents that another run holds."""

LOOK_S = 0.25
"""Pause between two checks whether other runs still move bytes."""


@contextmanager
def enrolled(
    inventory: Inventory,
    budget: Budget,
    *,
    purpose: str = "measure",
    shared: bool = False,
    run_id: str | None = None,
    take_over: bool = False,
    reach: Reach | None = None,
    direct: bool = False,
) -> Iterator[Fleet]:
    """Hold the agents of an inventory for one run.

    Args:
        inventory: the hosts.
        budget: what each agent may spend at most.
        purpose: what the run is for, in a word or two. Other users see it.
        shared: share the agents with other runs: for moving bytes, not for measuring. An exclusive run waits up to
            `PATIENCE_S` for others' transfers to end, then runs at the same time as they do; `Fleet.beside` lists them.
        run_id: name of a run that was killed, to take its agents over; None = a new run.
        take_over: end any other run of the same user that holds agents exclusively, instead of waiting for it.
        reach: connections to the agents that stay open afterwards; None = opened for this run alone.
        direct: the run moves nothing between hosts, so it needs no connections into hosts that accept none. Otherwise
            these hosts make such connections.

    Yields:
        a `Fleet` in which at least one agent is enrolled. Its `missing` lists the others.

    Raises:
        BusyError: when this run must hold an agent exclusively, but another run still does after `HELD_PATIENCE_S`. If
            the other run's controller no longer renews its lease, this run waits until that lease has ended.
        AgentError: when no agent answers.
    """
    with reaching(inventory) if reach is None else nullcontext(reach) as roads:
        fleet = Fleet(inventory, roads, run_id, purpose=purpose, shared=shared)
        fleet.check()
        if not fleet.hosts:
            name, reason = next(iter(fleet.missing.items()))
            raise NoAgentsError(f"none of {len(fleet.missing)} agents can be used; {name}: {reason}")
        try:
            _enrol_in_turn(fleet, budget, take_over=take_over)
            with _renewing(fleet):
                if not direct:
                    fleet.open_lines()
                if not shared:
                    _await_quiet(fleet)
                elif not direct:
                    fleet.warn_of_quotas("transfers may be slower than the network")
                yield fleet
        finally:
            fleet.release()


def _enrol_in_turn(fleet: Fleet, budget: Budget, *, take_over: bool) -> None:
    """Enrol all agents as soon as the runs that hold them let go. Two runs that hold half each both let go.

    A message announces how long this waits. A run whose controller was killed no longer renews its lease: its agents
    are free when the lease ends, after 20 s at most. Once that shows, another message announces the further wait.
    """
    begin_s = time.monotonic()
    pauses = random.Random(fleet.run_id)
    most_s = 0.0
    while True:
        try:
            fleet.enrol(budget, take_over=take_over)
            return
        except BusyError as error:
            fleet.release()
            waited_s = time.monotonic() - begin_s
            missed_s = RENEWALS_MISSED / RENEWALS * (error.lease_s or LEAST_LEASE_S)
            forsaken = 0 < error.lease_left_s < error.lease_s - missed_s
            free_s = waited_s + error.lease_left_s + LONGEST_PAUSE_S
            if forsaken and free_s > most_s + LOOK_S:
                most_s = max(free_s, HELD_PATIENCE_S)
                logger.warning(
                    "waiting up to %.0f s until agents are free: %s; its controller no longer answers",
                    math.ceil(most_s - waited_s),
                    error.message,
                )
            elif not most_s:
                most_s = max(HELD_PATIENCE_S, missed_s + LONGEST_PAUSE_S)
                logger.warning("waiting up to %.0f s for the agents: %s", math.ceil(most_s), error.message)
            elif waited_s >= most_s:
                raise
            time.sleep(max(0.1, min(pauses.uniform(0.1, LONGEST_PAUSE_S), most_s - waited_s)))


@contextmanager
def _renewing(fleet: Fleet) -> Iterator[None]:
    """Renew the lease while the run lasts. Agents of a controller that was killed are free when the lease ends."""
    over = threading.Event()

    def beat() -> None:
        try:
            # An agent that does not answer must not delay the next renewal of the others.
            next_s = time.monotonic() + fleet.renewal_s
            while not over.wait(max(0.0, next_s - time.monotonic())):
                next_s = time.monotonic() + fleet.renewal_s
                fleet.renew()
                fleet.attend()
        except ValueError as error:
            # The channels may be closed during the last renewal.
            logger.debug("run %s: does not renew its lease any more: %s", fleet.run_id, error)

    aside(fleet.attend)
    threading.Thread(target=beat, daemon=True, name="lease").start()
    try:
        yield
    finally:
        over.set()


def _await_quiet(fleet: Fleet) -> None:
    """Wait until no other run moves bytes between the hosts, for at most `PATIENCE_S`."""
    end_s = time.monotonic() + PATIENCE_S
    while (busy := fleet.busy()) and time.monotonic() < end_s:
        logger.debug("waiting for others' transfers: %s", busy)
        time.sleep(LOOK_S)
