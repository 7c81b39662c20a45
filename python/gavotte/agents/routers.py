"""Count the routers between hosts, which shows who shares a machine or a rack."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import OUT_OF_TOUCH, Answer, Schedule, Step
from gavotte.formats.parts.lengths import Lengths
from gavotte.terms import Pair
from gavotte.terms.rounds import disjoint_rounds

GLANCE = pb.Probe(burst_train=pb.BurstTrain(bursts=1, packets=2, payload_bytes=64))
"""Two small packets, whose time to live shows the number of routers."""

GLANCE_S = 1.0
"""Longest time of a glance: usually some milliseconds, or 0.2 s if every packet is lost."""

MOST_SINGLE = 256
"""Most hosts whose pairs are all kept one by one. Of more, those that clusters show are not."""

Send = Callable[[Schedule, float], Iterator[Answer]]
"""Sends a schedule, and yields each outcome. The second argument is the longest time of a round, in seconds."""


@dataclass
class Routers:
    """Counts of routers between hosts.

    Attributes:
        lengths: path lengths (routers + 1) between all hosts.
        round_trips_s: round trip of each pair that answered.
        blocked: the (source, target) indices on which TCP passes, but UDP does not.
        cut: pairs of indices that could not connect in at least one direction.
    """

    lengths: Lengths
    round_trips_s: dict[Pair, float] = field(default_factory=dict)
    blocked: set[Pair] = field(default_factory=set)
    cut: set[frozenset[int]] = field(default_factory=set)


def count_routers(send: Send, hosts: Iterable[str], names: Sequence[str], *, seed: int = 0) -> Routers:
    """Count the routers between any two hosts by the time to live of two small packets, N/2 pairs at a time.

    Args:
        send: sends a schedule.
        hosts: usable hosts.
        names: hosts in matrix order; those that are not usable stay unknown.
        seed: seed of the order, and of which end sends.
    """
    index = {name: i for i, name in enumerate(names)}
    here = set(hosts)
    routers = Routers(Lengths(len(names)))
    for back in (False, True):
        for answer in send(between_any_two(here, names, GLANCE, seed=seed, back=back), GLANCE_S):
            note_answer(answer, index, routers)
        # One direction shows the length. If one has a firewall, the other may have one too.
        if not routers.blocked and not routers.cut:
            break
    if len(names) > MOST_SINGLE:
        routers.lengths.settle()
    return routers


def note_answer(answer: Answer, index: Mapping[str, int], routers: Routers) -> None:
    """Note what the answer of one pair shows.

    Args:
        answer: the outcome of two small packets.
        index: index of each host.
        routers: receives the counts.
    """
    i, j = index[answer.source], index[answer.target]
    if answer.failure in OUT_OF_TOUCH:
        routers.cut.add(frozenset((i, j)))
    if answer.reply is None:
        return
    if answer.failure == pb.FAILURE_NO_UDP:
        routers.blocked.add((i, j))
    if answer.reply.hops:
        routers.lengths.note((i, j), answer.reply.hops)
    if answer.reply.rtt_s > 0:
        routers.round_trips_s[i, j] = answer.reply.rtt_s


def between_any_two(
    hosts: Collection[str], names: Sequence[str], probe: pb.Probe, *, seed: int, back: bool = False
) -> Schedule:
    """Return rounds that probe each pair of hosts once, in one direction; with `back` in the other."""
    usable = [name for name in names if name in hosts]
    return [
        [Step(usable[b if back else a], usable[a if back else b], probe) for a, b in pairs]
        for pairs in disjoint_rounds(len(usable), seed=seed)
    ]
