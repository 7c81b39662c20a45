"""Our own trains of UDP packets, which go on until the rate of the path is proven."""

from __future__ import annotations

import math

from gavotte.agents import agent_pb2 as pb
from gavotte.measure.plan.methods.method import SETUP_S, TRAIN_MAX_S, Method, Play, RateVerdict, Reading
from gavotte.terms.goodput import ETHERNET_BYTES, UDP_HEADER_BYTES, goodput_per_wire

IPV6_HEADER_BYTES = 40

TRAIN_USUAL_S, TRAIN_SURE_S = 0.056, 0.006
"""Usual duration of a train without a deep bucket: 7 to 8 MB at 1 Gbit/s.

Its receiver takes the second value longer for each Gbit/s above that, at most 1.5 times as long in total: 16 MB at
2 Gbit/s, 50 at 5.
"""

TRAIN_LONG_BYTES, TRAIN_LONG_S = 1_000_000, 0.16
"""A slower train sends this many bytes, or takes this long: it may meet a policer whose bucket is not yet empty."""

TRAIN_SLOW_BYTES, TRAIN_QUIET_S, TRAIN_LEAST_BYTES = 310_000, 0.03, 600_000
"""A train also lasts until it has 12 blocks of 17 packets, which takes longer on slow paths.

Then its receiver waits for the last packets. Its first bytes exceed what a slow path can queue, so that it loses some:
0.60 MB in 0.17 s at 20 Mbit/s.
"""

TRAIN_FILL_BYTES = 256 << 10
"""Bytes that a train sends at once at its start, whatever its path carries."""

TRAIN_BYTES = 64_000_000
"""Most bytes of a gated train: empties a bucket of 60 MB. Without a deep bucket, 1 to 10 MB were seen up to 1 Gbit/s.
"""

UNSTEADY = 0.6
"""Share of trains that find no rate on a full link with other trains, and then use all their time."""

LOST = 0.98
"""A pair that carries less than this share of its rate alone has lost to others."""

_VERDICTS: dict[int, RateVerdict] = {
    pb.VERDICT_PATH_LIMITED: "path-limited",
    pb.VERDICT_HOST_LIMITED: "host-limited",
    pb.VERDICT_BUCKET_NOT_EXHAUSTED: "bucket-not-exhausted",
}


def goodput_share(reply: pb.ProbeReply) -> float:
    """Return the TCP goodput of a wire rate on a train's path, by its MTU and its packets' headers."""
    train = reply.gated_train
    ip_header_bytes = train.wire_bytes - ETHERNET_BYTES - UDP_HEADER_BYTES - train.payload_bytes
    return goodput_per_wire(reply.mtu_bytes, ipv6=ip_header_bytes == IPV6_HEADER_BYTES)


def _read_train(reply: pb.ProbeReply) -> Reading:
    """Return the sustained wire rate as TCP goodput; a lower bound if the verdict says so."""
    train, share = reply.gated_train, goodput_share(reply)
    return Reading(
        goodput_bps=train.rate_bps * share,
        low_bps=train.low_bps * share,
        high_bps=train.high_bps * share,
        peak_bps=train.peak_bps * share,
        bucket_bytes=train.bucket_bytes if train.HasField("bucket_bytes") else math.nan,
        loss=train.loss,
        unqueued=train.unqueued,
        unqueued_lost=train.unqueued_lost,
        policed=train.policed,
        verdict=_VERDICTS.get(train.verdict, "unproven"),
        refusal=train.refusal,
        failure=pb.FAILURE_NO_RATE if train.refusal else 0,
    )


def _play_train(play: Play) -> pb.ProbeReply:
    """Return the answer of a train; one that loses to others may find no rate."""
    asked, lost = play.probe.gated_train, play.share_bps < LOST * play.alone_bps
    train = pb.GatedTrainResult(payload_bytes=play.payload_bytes, wire_bytes=play.wire_bytes)
    if lost and play.random.random() < UNSTEADY:
        seconds = asked.max_seconds or TRAIN_MAX_S
        size = TRAIN_FILL_BYTES + play.alone_bps / 8 * seconds
        train.refusal, train.refused = "the rate is unsteady", pb.GATED_REFUSAL_UNSTEADY
    else:
        level_bps = play.random.uniform(play.share_bps, play.alone_bps) if lost else play.alone_bps
        size, seconds = play.typical(level_bps)
        size, seconds = play.taken[0] * size, play.taken[1] * (seconds - SETUP_S)
        train.verdict = pb.VERDICT_PATH_LIMITED
        train.rate_bps = train.low_bps = train.high_bps = level_bps / play.goodput
    train.seconds = seconds
    return pb.ProbeReply(
        seconds=asked.pause_s + seconds,
        bytes_sent=min(int(size), asked.max_bytes or int(size)),
        gated_train=train,
        mtu_bytes=play.mtu_bytes,
        error=train.refusal,
        failure=pb.FAILURE_NO_RATE if train.refusal else pb.FAILURE_UNSPECIFIED,
    )


def _typical_train(rate_bps: float) -> tuple[float, float]:
    slow_s = min(8 * TRAIN_SLOW_BYTES / rate_bps + TRAIN_QUIET_S, TRAIN_MAX_S)
    sure_s = min(max(0.0, TRAIN_SURE_S * (rate_bps / 1e9 - 1)), TRAIN_USUAL_S / 2)
    least_s = min(8 * TRAIN_LONG_BYTES / rate_bps, TRAIN_LONG_S)
    seconds = max(min(TRAIN_USUAL_S + sure_s, 8 * TRAIN_BYTES / rate_bps), slow_s, least_s)
    through = rate_bps / 8 * seconds
    return min(max(TRAIN_LEAST_BYTES, through), TRAIN_FILL_BYTES + through), SETUP_S + seconds


TRAIN = Method(
    name="train",
    probe=pb.Probe(gated_train=pb.GatedTrain(max_bytes=TRAIN_BYTES, max_seconds=TRAIN_MAX_S)),
    bytes_per_path=TRAIN_BYTES,
    typical=_typical_train,
    read=_read_train,
    play=_play_train,
    # Twice the largest error of a proven rate.
    tolerance=0.02,
    adapts_to_noise=True,
    can_pause=True,
    by_udp=True,
    has_faster_paths=True,
)
