"""What agents' answers say: a reading, and a probe among others."""

from __future__ import annotations

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Answer
from gavotte.formats.rates import MAX_RATE_BPS
from gavotte.measure.busy import Busy
from gavotte.measure.company import Sent
from gavotte.measure.methods import Method, Reading, refused
from gavotte.terms import Pair
from gavotte.terms.goodput import GOODPUT_PER_WIRE


def read(answer: Answer, method: Method, busy: Busy) -> Reading:
    """What a path carries, as far as its answer makes sense.

    Args:
        answer: of one probe.
        method: that sent it.
        busy: where others fill links; what TCP gets there counts, too.
    """
    if answer.reply is None or answer.error:
        return refused(answer.error, answer.failure)
    try:
        reading = busy.read(answer.reply) or method.read(answer.reply)
    except (ArithmeticError, ValueError) as error:
        # Numbers that can be, but not together.
        return refused(f"what its agent says makes no sense ({error})")
    # NaN is in no range.
    if not reading.refusal and not 0 < reading.goodput_bps <= MAX_RATE_BPS:
        return refused("no rate could be told")
    return reading


def sent_as(pair: Pair, number: int, reply: pb.ProbeReply, reading: Reading) -> Sent:
    """The probe as `Company` takes it."""
    end_s = reply.started_s + reply.seconds
    # A probe's time has in it the wait for its peer.
    busy_s = max([reply.gated_train.seconds, *(flow.seconds for flow in reply.bulk.flows)]) or reply.seconds
    load_bps = 8 * reply.bytes_sent / max(busy_s, 1e-3) if reading.refusal else reading.goodput_bps
    train = reply.gated_train
    bits = tuple(8 * GOODPUT_PER_WIRE * size for size in train.bin_bytes)
    start_s = max(reply.started_s, end_s - busy_s)
    return Sent(pair, number, start_s, end_s, reading.goodput_bps, load_bps, bits, train.bin_s)
