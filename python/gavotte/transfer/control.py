"""The controller of transfers: decides their shares of the network and sends paces to the agents (Orchestra, 6.4)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes, merged, spelled_as
from gavotte.formats.parts.names import known_as, meant
from gavotte.formats.parts.transfer import Copies, Transfer, TransferOptions, TransferQueue, checked
from gavotte.terms.unix_clock import UnixClock
from gavotte.transfer.admission import admitted, crowded, holdable
from gavotte.transfer.credit_levels import CreditLevels
from gavotte.transfer.orders import Coflow, order_rates, serving_order
from gavotte.transfer.promising import promise_refusal
from gavotte.transfer.question import HOST, output_paths
from gavotte.transfer.spelling import spelled_copies, spelled_network
from gavotte.transfer.underway import BroadcastUnderWay, UnderWay, check_copies, due_s, under_way

logger = logging.getLogger(__name__)

TICK_S = 0.25
"""Longest time between two orderings, as unknown sizes show in the bytes sent. Arrivals and ends also cause one."""

SAVE_S = 1.0
"""Time between two times that progress is stored, so that a controller that is killed can continue from it."""

STOP_S = 3.0
"""Time that a controller which stops gives its transfers to release their agents. Leases of the others end."""


PLAIN = TransferOptions()
"""Options of a transfer that has no owner and is not encrypted."""


class Controller:
    """Controller that runs transfers over the agents of an inventory, in the order of a policy.

    Args:
        inventory: the hosts.
        network: the Network between them.
        queue: storage of the transfers. Transfers that another controller left unfinished in it are continued.
        policy: one of `POLICIES`.
        clock: Unix time; None = this machine's, which setting it does not change from then on.
    """

    def __init__(
        self,
        inventory: Inventory,
        network: Network,
        queue: TransferQueue,
        policy: str = "fifo+",
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        network = spelled_network(network, inventory.names)
        order_rates(network, policy, [])
        self.policy = policy
        self._hosts = {host.name: host for host in inventory.host}
        self._inventory = inventory
        self._network = network
        self._credits = CreditLevels(network)
        self._queue = queue
        self._clock = clock or UnixClock()
        self._changed = threading.Condition()
        self._transfers = {transfer.id: transfer for transfer in queue.all()}
        self._unfinished = {number for number, transfer in self._transfers.items() if not transfer.over}
        self._waiting: dict[int, tuple[Transfer, frozenset[str], Coflow]] = {}
        self._live: dict[int, UnderWay] = {}
        self._stopped = False
        self._warned: set[str] = set()
        self._warn: Callable[[str], None] = lambda _: None

    def submit(
        self,
        flows: Sequence[HostBytes],
        *,
        copies: Copies | None = None,
        name: str = "",
        options: TransferOptions = PLAIN,
        priority_class: int = 0,
        weight: float = 1.0,
        deadline_s: float | None = None,
        demote: bool = False,
    ) -> Transfer:
        """Queue a transfer.

        Args:
            flows: bytes from host to host, and one flow comes of all with the same ends; for a broadcast, from its
                source to each receiver, 0 bytes.
            copies: the copies of a broadcast; None = a shuffle.
            name: for people.
            options: its owner, and whether its bytes are encrypted.
            priority_class: 0 = the highest.
            weight: its share where weights count.
            deadline_s: seconds from now by which it has to be done; None = no deadline. It is promised if the transfer
                can keep it at constant rates that no earlier promise needs (Varys, section 5.3).
            demote: whether a transfer whose deadline cannot be promised is queued without a promise.

        Raises:
            GavotteError: for hosts that the inventory or the Network does not have, numbers out of range, a broadcast
                that cannot be paced, and a deadline that cannot be promised.
        """
        flows = spelled_as(flows, self._hosts)
        copies = None if copies is None else spelled_copies(copies, self._hosts)
        checked(flows, weight=weight, priority_class=priority_class, deadline_s=deadline_s)
        for host in dict.fromkeys(end for flow in flows for end in (flow.source, flow.target)):
            self._check_host(host)
        if copies is None:
            flows = merged(flows)
        else:
            check_copies(copies, flows)
            if deadline_s is not None:
                raise GavotteError("a broadcast cannot have a deadline", hint="submit its flows as a matrix of bytes")
        new = Transfer(
            0,
            name,
            options.user,
            priority_class,
            weight,
            tuple(flows),
            submitted_s=self._clock(),
            copies=copies,
            encrypt=options.encrypt,
        )
        with self._changed:
            if deadline_s is not None:
                new = self._promised(replace(new, deadline_s=deadline_s), demote=demote)
            queued = self._queue.add(new)
            self._transfers[queued.id] = queued
            self._unfinished.add(queued.id)
            self._changed.notify_all()
        return queued

    def join(self, number: int, host: str, output: str = "") -> Transfer:
        """Add a receiver to a broadcast, which may be running. The host is retried until the others have finished.

        Args:
            number: number of the transfer.
            host: the receiver, a host of the inventory.
            output: absolute path of its copy; empty = as for the others.

        Raises:
            GavotteError: when no unfinished broadcast has that number, or the host is not in inventory and Network, or
                has the object or is a receiver already.
        """
        self.get(number)
        host = known_as(host, self._hosts)
        self._check_host(host)
        if output:
            output_paths(output, [host])
        with self._changed:
            live = self._live.get(number)
            joined = self._now(self._transfers[number]).joined(host, output.replace(HOST, host))
            if isinstance(live, BroadcastUnderWay):
                live.join(joined)
            self._transfers[number] = joined
            self._queue.save(joined)
            self._changed.notify_all()
        return self.get(number)

    def _check_host(self, host: str) -> None:
        if host not in self._hosts or host not in self._network.names:
            known = [name for name in self._network.names if name in self._hosts]
            raise GavotteError(f"`{host}` is not a host of inventory and Network", hint=meant(host, known))

    def list(self) -> list[Transfer]:
        """Return all transfers, by number."""
        with self._changed:
            return [self._now(transfer) for transfer in self._transfers.values()]

    def get(self, number: int) -> Transfer:
        """Return one transfer.

        Raises:
            GavotteError: when none has that number.
        """
        with self._changed:
            if number not in self._transfers:
                raise GavotteError(f"there is no transfer {number}", hint="`gavotte transfers list` shows all")
            return self._now(self._transfers[number])

    def cancel(self, number: int) -> Transfer:
        """End a transfer that is not over.

        Raises:
            GavotteError: when none has that number.
        """
        self.get(number)
        with self._changed:
            live, transfer = self._live.get(number), self._transfers[number]
            if live is not None:
                live.suspended = False
                live.cancel()
            elif not transfer.over:
                self._end(transfer, "cancelled", "")
        return self.get(number) if live is None else self.wait(number, 10.0)

    def wait(self, number: int, seconds: float) -> Transfer:
        """Return when a transfer is over, the controller has stopped, or the time is up.

        Raises:
            GavotteError: when none has that number.
        """
        self.get(number)
        with self._changed:
            self._changed.wait_for(lambda: self._transfers[number].over or self._stopped, seconds)
        return self.get(number)

    @property
    def stopped(self) -> bool:
        """Whether `run` has ended."""
        return self._stopped

    def run(self, stop: threading.Event, warn: Callable[[str], None] = lambda _: None) -> None:
        """Carry out transfers until `stop` is set. The next controller continues those that are running then.

        Args:
            stop: ends it.
            warn: called with each warning of a transfer that has ended, once.
        """
        saved_s = 0.0
        self._warn = warn
        try:
            while not stop.is_set():
                with self._changed:
                    self._admit()
                    self._order()
                    if time.monotonic() - saved_s > SAVE_S:
                        saved_s = time.monotonic()
                        for live in self._live.values():
                            self._queue.save(self._now(live.transfer))
                    self._changed.wait(TICK_S)
        finally:
            with self._changed:
                under_way = list(self._live.values())
                for live in under_way:
                    live.suspended = True
                    live.cancel()
                self._stopped = True
                self._changed.notify_all()
                for live in under_way:
                    self._queue.save(replace(self._now(live.transfer), state="queued"))
            end_s = time.monotonic() + STOP_S
            for live in under_way:
                if live.thread is not None:
                    live.thread.join(max(0.0, end_s - time.monotonic()))

    def _now(self, transfer: Transfer) -> Transfer:
        live = self._live.get(transfer.id)
        return transfer if live is None else replace(live.now(), state=transfer.state)

    def _admit(self) -> None:
        """Start and suspend transfers, so that those run on each host that the policy serves first."""
        hosts = {number: self._kept(number)[1] for number in sorted(self._unfinished)}
        order, running = list(hosts), set(hosts)
        if crowded(hosts):
            coflows = [coflow for _, coflow in self._described()]
            order = [order[index] for index in serving_order(self._network, self.policy, coflows)]
            running = admitted(order, hosts)
        for number, live in self._live.items():
            if number not in running and not live.cancelled:
                live.suspend()
        for number in order:
            if number in running and number not in self._live and holdable(number, hosts, self._live):
                self._begin(number)

    def _described(self) -> Sequence[tuple[frozenset[str], Coflow]]:
        """Return the hosts of each unfinished transfer, by number, and what a policy may know about it now."""
        now_s, described = self._clock(), []
        for number in sorted(self._unfinished):
            transfer, hosts, waiting = self._kept(number)
            coflow = self._live[number].coflow(now_s) if number in self._live else waiting
            described.append((hosts, replace(coflow, due_s=due_s(transfer, now_s))))
        return described

    def _kept(self, number: int) -> tuple[Transfer, frozenset[str], Coflow]:
        """Return an unfinished transfer, its hosts, and what a policy may know about it while it waits."""
        transfer = self._transfers[number]
        known = self._waiting.get(number)
        if known is None or known[0] is not transfer:
            coflow = under_way(transfer).coflow(self._clock())
            known = self._waiting[number] = (transfer, _hosts(transfer), coflow)
        return known

    def _promised(self, new: Transfer, *, demote: bool) -> Transfer:
        """Return a new transfer with the promise of its deadline, or without if it is demoted.

        Raises:
            GavotteError: when the deadline cannot be promised and the transfer is not demoted.
        """
        coflow = under_way(new).coflow(new.submitted_s)
        refusal = promise_refusal(self._network, coflow, _hosts(new), self._described())
        if refusal is not None and not demote:
            raise refusal
        return replace(new, guaranteed=refusal is None)

    def _begin(self, number: int) -> None:
        """Start a waiting transfer."""
        transfer = self._transfers[number]
        started_s = transfer.started_s if transfer.started_s is not None else self._clock()
        running = replace(transfer, state="running", started_s=started_s)
        self._transfers[number] = running
        self._queue.save(running)
        live = under_way(running)
        self._live[number] = live
        live.thread = threading.Thread(target=self._carry, args=(live,), daemon=True, name=f"transfer-{number}")
        live.thread.start()

    def _order(self) -> None:
        """Give each flow the rate that the policy decides."""
        ready = [live for live in self._live.values() if live.started and not live.cancelled]
        if not ready:
            # What the last transfers sent counts when the next ones begin.
            self._credits.network({}, time.monotonic())
            return
        now_s = self._clock()
        coflows = [live.coflow(now_s) for live in ready]
        flows = {live.transfer.id: coflow.flows for live, coflow in zip(ready, coflows, strict=True)}
        network = self._credits.network(flows, time.monotonic())
        rates = order_rates(network, self.policy, coflows)
        for live, own in zip(ready, rates.rates_bps, strict=True):
            live.pace(own.tolist())

    def _end(self, transfer: Transfer, state: str, error: str) -> None:
        ended = replace(self._now(transfer), state=state, error=error, finished_s=self._clock())  # type: ignore[arg-type]
        self._live.pop(transfer.id, None)
        self._waiting.pop(transfer.id, None)
        self._unfinished.discard(transfer.id)
        self._transfers[transfer.id] = ended
        self._save(ended)
        self._changed.notify_all()

    def _queue_again(self, transfer: Transfer) -> None:
        """Let a suspended transfer wait with what it has moved."""
        waiting = replace(self._now(transfer), state="queued", receivers=())
        self._live.pop(transfer.id, None)
        self._transfers[transfer.id] = waiting
        self._save(waiting)
        self._changed.notify_all()

    def _save(self, transfer: Transfer) -> None:
        """Store the state of a transfer. A controller that stops has stored all; then its store may be closed."""
        if not self._stopped:
            self._queue.save(transfer)

    def _carry(self, live: UnderWay) -> None:
        """Carry out one transfer, from its holds to its end, in a thread of its own."""
        state, error = "failed", ""
        try:
            live.carry(self._inventory, self._network, self._changed)
            state = "cancelled" if live.cancelled and not live.complete else "done"
        except GavotteError as failure:
            error = str(failure)
        except Exception as failure:
            logger.info("transfer %d", live.transfer.id, exc_info=True)
            error = f"{type(failure).__name__}: {failure}"
        with self._changed:
            for warning in live.warnings:
                if warning not in self._warned:
                    self._warned.add(warning)
                    self._warn(warning)
            live.cancel()
            if live.suspended and state == "cancelled":
                self._queue_again(live.transfer)
            else:
                self._end(live.transfer, state, error)


def _hosts(transfer: Transfer) -> frozenset[str]:
    return frozenset(end for flow in transfer.flows for end in (flow.source, flow.target))
