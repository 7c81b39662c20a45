"""Estimate the credits that hosts have left while transfers start and end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gavotte.formats.network import Network
from gavotte.terms.credit import has_credit, sent_by_hosts, with_credits
from gavotte.transfer.shuffling import Flow, flows_on


class CreditLevels:
    """Level of each host's credit, from the bytes that its transfers have sent.

    1. Each credit is full at first.
    2. It falls by what the host sends to other machines, rises at r, and never exceeds b.
    3. A host then has its average rate over all bytes that it has still to send, as in a shuffle, but with the level in
       the place of b.
    """

    def __init__(self, network: Network) -> None:
        """Start with full credits.

        Args:
            network: hosts with or without credits.
        """
        self._network = network
        self._levels_bytes = {
            index: host.burst_bytes or 0.0 for index, host in enumerate(network.hosts) if has_credit(host)
        }
        self._flows: dict[tuple[int, str, str], float] = {}
        self._last_s: float | None = None

    def network(self, flows: Mapping[int, Sequence[Flow]], now_s: float) -> Network:
        """Return the Network in which each host has the rate that its credit and its remaining bytes allow.

        Args:
            flows: the flows of each transfer, by its number, with the bytes left.
            now_s: monotonic time.
        """
        if not self._levels_bytes:
            return self._network
        left: defaultdict[tuple[int, str, str], float] = defaultdict(float)
        for number, own in flows.items():
            for source, target, left_bytes in own:
                left[number, source, target] += left_bytes
        self._spend(left, now_s)
        hosts = [
            host.model_copy(update={"burst_bytes": self._levels_bytes.get(index, host.burst_bytes)})
            for index, host in enumerate(self._network.hosts)
        ]
        network = self._network.model_copy(update={"hosts": hosts})
        return with_credits(network, sent_by_hosts(network, self._on_hosts(left)))

    def _spend(self, left: Mapping[tuple[int, str, str], float], now_s: float) -> None:
        """Subtract what was sent since the last call, and add what r has filled."""
        moved = {flow: before - left.get(flow, 0.0) for flow, before in self._flows.items()}
        sent = sent_by_hosts(self._network, self._on_hosts({flow: max(0.0, size) for flow, size in moved.items()}))
        passed_s = 0.0 if self._last_s is None else now_s - self._last_s
        for index, level_bytes in self._levels_bytes.items():
            host = self._network.hosts[index]
            filled = level_bytes + (host.egress_bps or 0.0) / 8 * passed_s - sent[index]
            self._levels_bytes[index] = min(host.burst_bytes or 0.0, max(0.0, filled))
        self._flows, self._last_s = dict(left), now_s

    def _on_hosts(self, flows: Mapping[tuple[int, str, str], float]) -> list[tuple[int, int, float]]:
        return flows_on(self._network, [(source, target, size) for (_, source, target), size in flows.items()])
