"""Ping-pong of messages of several sizes, as RPCA measures latency and bandwidth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from gavotte.agents import agent_pb2 as pb
from gavotte.measure.plan.methods.method import SETUP_S, Method, Play, Reading, refused

PINGPONG_BYTES = (1, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 8_000_000)
PINGPONG_REPETITIONS = 1
PINGPONG_PATH_BYTES = (sum(PINGPONG_BYTES) + len(PINGPONG_BYTES)) * (PINGPONG_REPETITIONS + 1)
"""Bytes of ping-pong on one path; each message is answered by one byte.

RPCA section IV-B measures alpha with 1 byte and beta with 8 MB; the sizes between show whether a line fits.
"""


def _read_pingpong(reply: pb.ProbeReply) -> Reading:
    """Latency from 1 byte, bandwidth from 8 MB (RPCA section IV-B), and how well a line fits the sizes between.

    Each message is answered by one byte. Its way back takes half the round trip of the one-byte message.
    """
    times = {size.bytes: statistics.median(size.seconds) for size in reply.ping_pong.sizes if size.seconds}
    if PINGPONG_BYTES[0] not in times or PINGPONG_BYTES[-1] not in times:
        return refused("the ping-pong ended early")
    back_s = times[PINGPONG_BYTES[0]] / 2
    times = {size: max(seconds - back_s, 1e-9) for size, seconds in times.items()}
    largest = PINGPONG_BYTES[-1]
    _, _, residual = alpha_beta(list(times), list(times.values()))
    return Reading(goodput_bps=8 * largest / times[largest], alpha_s=times[PINGPONG_BYTES[0]], residual=residual)


def _play_pingpong(play: Play) -> pb.ProbeReply:
    reply = play.reply()
    for message in PINGPONG_BYTES:
        reply.ping_pong.sizes.add(bytes=message, seconds=[8 * message / play.share_bps])
    return reply


def alpha_beta(sizes: Sequence[int], times_s: Sequence[float]) -> tuple[float, float, float]:
    """Fit time = alpha + bytes / beta, each size weighing the same in relative terms.

    Args:
        sizes: message sizes, bytes.
        times_s: one-way times.

    Returns:
        alpha in seconds (at least 0), beta in bytes/s, and the relative RMS residual.
    """
    size, time_s = np.asarray(sizes, dtype=np.float64), np.asarray(times_s, dtype=np.float64)
    design = np.column_stack([1 / time_s, size / time_s])
    (alpha_s, per_byte_s), *_ = np.linalg.lstsq(design, np.ones_like(size), rcond=None)
    alpha_s = max(float(alpha_s), 0.0)
    left = (alpha_s + size * per_byte_s) / time_s - 1
    return alpha_s, float(1 / per_byte_s) if per_byte_s > 0 else math.inf, float(np.sqrt(np.mean(left**2)))


PINGPONG = Method(
    name="pingpong",
    probe=pb.Probe(ping_pong=pb.PingPong(bytes=PINGPONG_BYTES, repetitions=PINGPONG_REPETITIONS, congestion="cubic")),
    bytes_per_path=PINGPONG_PATH_BYTES,
    typical=lambda bps: (PINGPONG_PATH_BYTES, SETUP_S + 8 * PINGPONG_PATH_BYTES / bps),
    read=_read_pingpong,
    play=_play_pingpong,
)
