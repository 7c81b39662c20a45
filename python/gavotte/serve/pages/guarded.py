"""The guarantees that agents enforce now, as the page shows them."""

from __future__ import annotations

import threading
import time

from gavotte.agents import resolve_hosts
from gavotte.errors import GavotteError
from gavotte.formats.parts.routes import SshRoute
from gavotte.guarantee import GuaranteeStatus, GuardedHost, prometheus, status
from gavotte.serve.pages.openapi import Operation

ASK_S = 5.0
"""Interval at which agents are asked while a page is open."""


class Guarded:
    """The newest state of guarantees. Agents are asked on a thread of their own, since a host may be slow to answer.

    Args:
        hosts: the hosts, as `agents.resolve_hosts` takes them.
    """

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._state: GuaranteeStatus | None = None
        self._problem = ""
        self._count = 0
        self._asked_s = 0.0
        self._asking = threading.Lock()

    @property
    def state(self) -> GuaranteeStatus | None:
        """The newest answers of all agents; None = no host enforces a guarantee, or none has been asked."""
        return self._state

    @property
    def hosts(self) -> list[GuardedHost]:
        """The hosts, those with a guarantee first."""
        hosts = () if self._state is None else self._state.hosts
        return sorted(hosts, key=lambda host: not (host.egress_bps or host.ingress_bps))

    @property
    def problem(self) -> str:
        """Why agents could not be asked; empty = they could."""
        return self._problem

    @property
    def has_news(self) -> bool:
        """Whether a host enforces guarantees."""
        return self._state is not None

    def operations(self) -> list[Operation]:
        """Return the requests of the JSON interface."""
        return [
            Operation("/api/guarantees", "What agents guarantee now", GuaranteeStatus | None, lambda g, *_: g.state)
        ]

    def metrics(self) -> str:
        """Return the newest state in Prometheus' format; empty = none is known. Ask for the next one if it is time."""
        self.refresh()
        state = self._state
        return "" if state is None else prometheus(state)

    def mark(self) -> str:
        """Return a text that changes with each answer. Ask for the next one if it is time."""
        self.refresh()
        return str(self._count)

    def refresh(self) -> None:
        """Ask the agents, unless they were asked within `ASK_S`, and return at once."""
        if time.monotonic() - self._asked_s >= ASK_S and self._asking.acquire(blocking=False):
            threading.Thread(target=self._ask, name="guarantees", daemon=True).start()

    def _ask(self) -> None:
        try:
            before = self._state, self._problem
            try:
                state = _asked(self._hosts)
                self._state, self._problem = state, ""
            except GavotteError as error:
                self._state, self._problem = None, str(error)
            self._count += (self._state, self._problem) != before
        finally:
            self._asked_s = time.monotonic()
            self._asking.release()


def _asked(hosts: str) -> GuaranteeStatus | None:
    inventory = resolve_hosts(hosts)
    # An agent over SSH ends with its controller, so that it keeps no guarantee.
    lasting = [host for host in inventory.host if not isinstance(host.route, SshRoute)]
    if not lasting:
        return None
    state = status(inventory.model_copy(update={"host": lasting}))
    return state if any(host.egress_bps or host.ingress_bps for host in state.hosts) else None
