"""Choreo's trains as published: bursts of UDP packets, whose dispersion shows a rate."""

from __future__ import annotations

import math

from gavotte.agents import agent_pb2 as pb
from gavotte.errors import GavotteError
from gavotte.measure.plan.methods.method import SETUP_S, Method, Play, Reading
from gavotte.measure.plan.methods.train import TRAIN_QUIET_S
from gavotte.terms.goodput import UDP_PAYLOAD_BYTES

BURSTS = 10
BURST_PACKETS = 200
BURST_GAP_S = 0.001
"""Choreo section 4.1: K = 10 bursts of B = 200 packets, 1 ms apart (its EC2 values)."""

MOST_BURSTS, MOST_PACKETS, MOST_TRAIN_PACKETS = 1_000, 20_000, 1_000_000
PAYLOADS = range(44, 65_508)
"""UDP payloads of one train that agents accept. A packet holds a header of 44 bytes."""

QUEUE_S = 0.05
"""Time that a shaper's queue holds, as in labs. Packets that find it full are lost, and take no time."""

PACKET_S = 1 / 150e3
"""Time that an agent needs to send one packet of a burst."""

BURST_NOISE = 0.025
"""Noise of Choreo's trains: 94 to 103 Mbit/s on a path of 96, so that some paths are measured twice."""


def _read_choreo(reply: pb.ProbeReply) -> Reading:
    """Read a rate as in Choreo section 3.1: the smaller of the dispersion rate and Mathis' bound.

    The paper uses the rate in UDP payload as the TCP throughput; so does this baseline (1.7 % high).
    """
    train = reply.burst_train
    rate_bps = min(train.rate_bps, train.mathis_bps) if train.mathis_bps > 0 else train.rate_bps
    lost = max(train.sent - train.received - train.overflow, 0)
    return Reading(goodput_bps=rate_bps, loss=lost / train.sent if train.sent else math.nan)


def _play_choreo(play: Play) -> pb.ProbeReply:
    reply = play.reply()
    reply.burst_train.rate_bps = play.share_bps * (1 + play.random.gauss(0, BURST_NOISE))
    return reply


def choreo(*, bursts: int = BURSTS, packets: int = BURST_PACKETS, payload_bytes: int = UDP_PAYLOAD_BYTES) -> Method:
    """Return Choreo's trains as published, of any shape; `calibrate` finds one for a network (sections 3.1, 4.1).

    Args:
        bursts: K.
        packets: B, packets of each burst.
        payload_bytes: P, UDP payload of a packet. Agents send smaller packets if the path's MTU allows no more.

    Raises:
        GavotteError: for a shape that agents refuse.
    """
    fine = 1 <= bursts <= MOST_BURSTS and 2 <= packets <= MOST_PACKETS and bursts * packets <= MOST_TRAIN_PACKETS
    if not fine or payload_bytes not in PAYLOADS:
        raise GavotteError(
            f"a train cannot have {bursts} bursts of {packets} packets of {payload_bytes} bytes",
            hint=f"use 1 to {MOST_BURSTS} bursts of 2 to {MOST_PACKETS}, at most {MOST_TRAIN_PACKETS} in all",
        )
    size = bursts * packets * payload_bytes
    sent_s = (bursts - 1) * BURST_GAP_S + bursts * packets * PACKET_S
    train = pb.BurstTrain(bursts=bursts, packets=packets, payload_bytes=payload_bytes, gap_s=BURST_GAP_S)
    return Method(
        name="choreo",
        probe=pb.Probe(burst_train=train),
        bytes_per_path=size,
        typical=lambda bps: (size, SETUP_S + _burst_train_s(8 * size / bps, sent_s)),
        read=_read_choreo,
        play=_play_choreo,
        by_udp=True,
    )


def _burst_train_s(through_s: float, sent_s: float) -> float:
    """Return the duration of bursts.

    Args:
        through_s: time of all their packets, at the path's rate.
        sent_s: time until the last is sent, if nothing delays the sender.
    """
    if through_s <= sent_s + QUEUE_S:
        return max(through_s, sent_s)
    # Some were lost: the receiver waits for more.
    return sent_s + QUEUE_S + TRAIN_QUIET_S
