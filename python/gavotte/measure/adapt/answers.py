"""Read agents' answers, and describe each probe for the comparison with those that ran at the same time."""

from __future__ import annotations

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Answer
from gavotte.formats.parts.rate_fields import MAX_RATE_BPS
from gavotte.measure.adapt.busy import Busy
from gavotte.measure.adapt.streams import Streams
from gavotte.measure.adapt.withheld import Gap, find_gap
from gavotte.measure.plan.concurrency import Sent
from gavotte.measure.plan.methods.method import Method, Reading, refused
from gavotte.measure.plan.methods.train import goodput_share
from gavotte.terms import Pair


def read(answer: Answer, pair: Pair, method: Method, busy: Busy, streams: Streams) -> Reading:
    """Return the rate of a path according to an answer, if the answer is valid.

    Args:
        answer: the answer to one probe.
        pair: the probe's pair.
        method: the probe's method.
        busy: state of other traffic. If it fills links, TCP's share of them counts too.
        streams: paths that TCP measures instead.
    """
    if answer.reply is None or answer.error:
        return refused(answer.error, answer.failure)
    try:
        reading = streams.read(pair, answer.reply) or busy.read(answer.reply) or method.read(answer.reply)
    except (ArithmeticError, ValueError) as error:
        # Each number is possible, but not all of them together.
        return refused(f"its agent reports impossible values ({error})")
    # NaN is in no range.
    if not reading.refusal and not 0 < reading.goodput_bps <= MAX_RATE_BPS:
        return refused("no rate was found")
    return reading


def gap_in(answer: Answer, reading: Reading) -> Gap | None:
    """Return why an answer shows a host and not the path; None = it shows the path, or there is no reply."""
    if answer.reply is None:
        return None
    return find_gap(answer.source, answer.target, answer.reply, reading.verdict)


def sent_as(pair: Pair, number: int, reply: pb.ProbeReply, reading: Reading) -> Sent:
    """Return the probe in the form that `Concurrency` accepts."""
    end_s = reply.started_s + reply.seconds
    # A probe's time includes the wait for its peer.
    busy_s = max([reply.gated_train.seconds, *(flow.seconds for flow in reply.bulk.flows)]) or reply.seconds
    load_bps = 8 * reply.bytes_sent / max(busy_s, 1e-3) if reading.refusal else reading.goodput_bps
    train = reply.gated_train
    bits = tuple(8 * goodput_share(reply) * size for size in train.bin_bytes)
    start_s = max(reply.started_s, end_s - busy_s)
    return Sent(pair, number, start_s, end_s, reading.goodput_bps, load_bps, bits, train.bin_s)
