"""Holds the agents of an inventory for the length of one run, exclusively or beside others."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from gavotte.agents.fleet import LEASE_S, RENEWALS, Budget, Fleet
from gavotte.agents.reach import Reach, reaching
from gavotte.errors import AgentError, BusyError
from gavotte.formats.inventory import Inventory

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""How long agents that another run holds, or moves bytes between, are waited for: `gavotte watch` needs less."""

RENEWALS_MISSED = 1.5
"""Steps of renewal after which a lease has lost its controller; then it is waited for to its end."""

LOOK_S = 0.25
"""Pause between two looks whether others still move bytes."""


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
) -> Iterator[Fleet]:
    """Holds the agents of an inventory for one run.

    Args:
        inventory: the hosts.
        budget: what each agent may spend at most.
        purpose: what for, in a word or two: other users are told.
        shared: to move bytes beside others, not to measure. Who measures waits `PATIENCE_S` for others' transfers to
            end, then goes on beside them; `Fleet.beside` tells.
        run_id: of a run that was killed, to take its agents over; None = a new run.
        take_over: end whatever other run of the same user holds agents exclusively, instead of waiting for it.
        reach: roads to them that stay open afterwards; None = they are opened for this run alone.

    Yields:
        a `Fleet` in which at least one agent is enrolled; `missing` tells who is not.

    Raises:
        BusyError: when another run holds one exclusively, as this one wants to, and still does after `PATIENCE_S`, or,
            where its controller renews it no more, after its lease.
        AgentError: when no agent answers.
    """
    with reaching(inventory) if reach is None else nullcontext(reach) as roads:
        fleet = Fleet(inventory, roads, run_id, purpose=purpose, shared=shared)
        fleet.check()
        if not fleet.hosts:
            name, reason = next(iter(fleet.missing.items()))
            raise AgentError(f"none of {len(fleet.missing)} agents can be used; {name}: {reason}")
        try:
            _enrol_in_turn(fleet, budget, take_over=take_over)
            with _renewing(fleet):
                if not shared:
                    _await_quiet(fleet)
                yield fleet
        finally:
            fleet.release()


def _enrol_in_turn(fleet: Fleet, budget: Budget, *, take_over: bool) -> None:
    """Enrols all, when those that hold some let go of them; two that hold half each both let go.

    The wait is told of once, with how long it may be. A run whose controller was killed renews its lease no more: its
    agents are waited for until that ends, which is 10 s at most.
    """
    begin_s = time.monotonic()
    pauses = random.Random(fleet.run_id)
    told = False
    while True:
        try:
            fleet.enrol(budget, take_over=take_over)
            return
        except BusyError as error:
            fleet.release()
            waited_s = time.monotonic() - begin_s
            forsaken = 0 < error.lease_left_s < LEASE_S - RENEWALS_MISSED * LEASE_S / RENEWALS
            if waited_s > (PATIENCE_S + LEASE_S if forsaken else PATIENCE_S):
                raise
            if not told:
                most_s = max(PATIENCE_S, error.lease_left_s)
                logger.warning("waits up to %.0f s for its turn: %s", most_s, error.message)
                told = True
            time.sleep(pauses.uniform(0.1, 0.9))


@contextmanager
def _renewing(fleet: Fleet) -> Iterator[None]:
    """Keeps the lease while the run goes on; agents of a controller that was killed are free when it ends."""
    over = threading.Event()

    def beat() -> None:
        try:
            while not over.wait(LEASE_S / RENEWALS):
                fleet.renew()
        except ValueError as error:
            # The roads may be closed while the last word is under way.
            logger.debug("run %s: does not renew its lease any more: %s", fleet.run_id, error)

    threading.Thread(target=beat, daemon=True, name="lease").start()
    try:
        yield
    finally:
        over.set()


def _await_quiet(fleet: Fleet) -> None:
    """Waits until no other run moves bytes between the hosts, but not for ever."""
    end_s = time.monotonic() + PATIENCE_S
    while (busy := fleet.busy()) and time.monotonic() < end_s:
        logger.debug("waits for others' transfers: %s", busy)
        time.sleep(LOOK_S)
