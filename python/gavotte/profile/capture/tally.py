"""Counts each payload byte once, though packets are sent again, seen twice, or missed by the capture.

TCP numbers its bytes: what a connection carried is how far its sequence numbers moved. A retransmission, or the
second sight of a packet that `tcpdump -i any` caught on its way in and out, moves them no further; a packet that the
capture dropped, or a sampling capture left out, shows in the next one's number.

UDP has no numbers. A flow is counted where it was first seen (interface, way in or out), and nowhere else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

from gavotte.profile.capture.packets import Segment

JUMP_BYTES = 64 << 20
"""A sequence number further off than this, either way, is a new connection whose start was not captured: twice
the largest window that Linux opens by default, and 3 % of all numbers."""

FLOWS_KEPT = 1 << 17
"""Beyond so many, the flow that was silent longest is forgotten: about 60 MB."""

_Key = tuple[bytes, bytes, int, int, bool]


@dataclass(slots=True)
class _Connection:
    """One direction of a TCP connection."""

    first: int  # sequence number of the first byte
    following: int  # and of the byte behind the furthest one


class Tally:
    """Payload bytes by pair of addresses.

    Attributes:
        pair_bytes: packed (source, target) to bytes, in order of first sight.
        foreign_packets: packets with an end that is not among the known addresses.
        foreign_bytes: their payload, as often as it was seen.
        duplicate_packets: packets whose whole payload was counted before.
        duplicate_bytes: payload that was counted before.
        unseen_bytes: the part of `pair_bytes` that only sequence numbers tell of.
    """

    def __init__(self, known: Collection[bytes] | None) -> None:
        """Starts at zero.

        Args:
            known: packed addresses to count between; None for all.
        """
        self.pair_bytes: dict[tuple[bytes, bytes], int] = {}
        self.foreign_packets = 0
        self.foreign_bytes = 0
        self.duplicate_packets = 0
        self.duplicate_bytes = 0
        self.unseen_bytes = 0
        self._known = known
        self._connections: OrderedDict[_Key, _Connection] = OrderedDict()
        self._vantages: OrderedDict[_Key, int] = OrderedDict()

    def add(self, segment: Segment) -> None:
        """Counts what the segment adds."""
        if self._known is not None and not (segment.source in self._known and segment.target in self._known):
            self.foreign_packets += 1
            self.foreign_bytes += segment.payload_bytes
            return
        fresh = self._datagram(segment) if segment.sequence is None else self._stream(segment, segment.sequence)
        if fresh:
            pair = segment.source, segment.target
            self.pair_bytes[pair] = self.pair_bytes.get(pair, 0) + fresh

    def _stream(self, segment: Segment, sequence: int) -> int:
        """How many bytes further than ever before the segment reaches in its connection."""
        key = segment.source, segment.target, segment.source_port, segment.target_port, True
        count = segment.payload_bytes
        end = (sequence + count) & 0xFFFFFFFF
        connection = self._connections.get(key)
        if connection is None:
            if segment.starts or count:
                self._connections[key] = _Connection(sequence, end)
                if len(self._connections) > FLOWS_KEPT:
                    self._connections.popitem(last=False)
            return count
        self._connections.move_to_end(key)
        if not (segment.starts or count):  # a bare acknowledgement or reset: its number binds nobody
            return 0
        jump = _distance(connection.following, sequence)
        restarts = segment.starts and sequence != connection.first
        if restarts or not -JUMP_BYTES <= jump <= JUMP_BYTES:
            connection.first, connection.following = sequence, end
            return count
        fresh = max(jump + count, 0)
        if fresh:
            connection.following = end
        self.unseen_bytes += max(jump, 0)
        self._again(count, count - min(fresh, count))
        return fresh

    def _datagram(self, segment: Segment) -> int:
        key = segment.source, segment.target, segment.source_port, segment.target_port, False
        if key in self._vantages:
            self._vantages.move_to_end(key)
            if self._vantages[key] != segment.vantage:
                self._again(segment.payload_bytes, segment.payload_bytes)
                return 0
        else:
            self._vantages[key] = segment.vantage
            if len(self._vantages) > FLOWS_KEPT:
                self._vantages.popitem(last=False)
        return segment.payload_bytes

    def _again(self, count: int, old: int) -> None:
        self.duplicate_bytes += old
        self.duplicate_packets += count > 0 and old == count


def _distance(start: int, end: int) -> int:
    """The way from one 32-bit sequence number to another, negative if that is shorter."""
    return ((end - start + 0x80000000) & 0xFFFFFFFF) - 0x80000000
