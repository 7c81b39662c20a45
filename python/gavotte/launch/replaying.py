"""Predict a job's wall time by a replay of its trace, and choose an order of ranks by that.

1. The trace of one run shows what all ranks compute, send and wait for. `simulate.JobReplay` replays it in any order of
   hosts.
2. Runs in known orders show what a replay cannot know: how long the launcher and MPI_Init take, how far the time of
   messages is from the replayed one, and what processors take for them. Computing stays as it was traced.
3. Without messages the job takes `least_s`: no order of hosts is faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.launch.past import Past
from gavotte.place import Effort, RankOrder, evaluate, improve_order, with_slots
from gavotte.place.replaying import LEAST_SAVING
from gavotte.simulate import JobReplay, JobTime, MessageCosts
from gavotte.terms.algorithms import Setting

if TYPE_CHECKING:
    from gavotte.formats.trace import MpiTrace

LEAST_FACTOR, MOST_FACTOR = 0.5, 1.3
"""Bounds of what earlier runs say about the time that the network takes for messages. Anything longer is the time of
processors, which no order saves: a driven cavity on sixths of cores takes 30 s in any order (`make bench-launch`)."""
MOST_EVENTS = 5_000_000
"""Most events of a prediction: some 5 s of a processor. A longer trace would hold the launch up."""
LEAST_MESSAGES = 0.02
"""Runs whose messages take less than this share of their time say nothing about them."""


@dataclass(frozen=True)
class TracedJob:
    """A job whose trace is known, on its Network.

    Attributes:
        replay: the trace on the Network.
        startup_s: time from the start of a process until MPI_Init returned, in the traced run.
        traced_s: time from then to MPI_Finalize, in the traced run.
        past: earlier runs, in time order.
    """

    replay: JobReplay
    startup_s: float
    traced_s: float
    past: Sequence[Past]

    @cached_property
    def outside_s(self) -> float:
        """Seconds of a run outside of MPI_Init and MPI_Finalize: the launcher, and the start of the processes."""
        counted = [each.wall_s for each in self.past if each.counted]
        return max(counted[-1] - self.traced_s, 0.0) if counted else self.startup_s

    @cached_property
    def factor(self) -> float:
        """Time that the network took for messages in earlier runs, divided by the replayed time."""
        return self._messages[0]

    @cached_property
    def processors_s(self) -> float:
        """Seconds that messages took beyond that, the mean of earlier runs: the time of slow or shared processors."""
        return self._messages[1]

    @cached_property
    def _messages(self) -> tuple[float, float]:
        least_s = self.replay.least_s
        seconds: dict[tuple[str, ...], float] = {}
        taken_s = replayed_s = total_s = 0.0
        runs = 0
        for each in self.past:
            if len(each.order) != self.replay.ranks or each.settings:
                continue
            if each.order not in seconds:
                try:
                    seconds[each.order] = self.replay.predict(each.order).predicted_s
                except GavotteError:  # a host of that run is not in this Network
                    continue
            runs += 1
            taken_s += each.wall_s - self.outside_s - least_s
            replayed_s += seconds[each.order] - least_s
            total_s += seconds[each.order]
        if replayed_s <= LEAST_MESSAGES * total_s:
            return 1.0, 0.0
        factor = min(max(taken_s / replayed_s, LEAST_FACTOR), MOST_FACTOR)
        return factor, max(taken_s - factor * replayed_s, 0.0) / runs

    @property
    def floor_s(self) -> float:
        """Wall time that no order of hosts is below."""
        return self.outside_s + self.replay.least_s

    def wall_s(self, order: Sequence[str], settings: Sequence[Setting] = ()) -> tuple[float, float]:
        """Return the predicted wall time in an order, and half of the 95 % interval due to varying computing.

        Args:
            order: host of each rank.
            settings: algorithms of collectives that are set; empty = the MPI library's own choices.
        """
        return self.wall_of(self.replay.with_settings(settings) if settings else self.replay, order)

    def wall_of(self, replay: JobReplay, order: Sequence[str]) -> tuple[float, float]:
        """Return the same for another replay of this job: with other algorithms of collectives."""
        time: JobTime = replay.predict(order)
        messages_s = max(time.predicted_s - self.replay.least_s, 0.0)
        return self.floor_s + self.factor * messages_s + self.processors_s, (time.high_s - time.low_s) / 2

    def computing(self, wall_s: float) -> str:
        """Return what no order of hosts can save of a wall time, in words."""
        share = min(self.floor_s / wall_s, 1.0) if wall_s > 0 else 1.0
        return f"{share:.0%} of this job is computing: no placement saves more than {1 - share:.0%}"


def traced_job(
    trace: MpiTrace | None,
    network: Network | None,
    ranks: int,
    past: Sequence[Past],
    *,
    family: str,
    seed: int,
    complain: Callable[[str], None],
) -> TracedJob | None:
    """Return a job that can be replayed; None = its trace or Network is unknown, or the trace is of no use.

    Args:
        trace: the job's trace.
        network: the Network.
        ranks: number of ranks of the job.
        past: earlier runs.
        family: MPI library of the launcher: `openmpi` or `mpich`; another = as Open MPI.
        seed: seed of computing times.
        complain: called with a warning.
    """
    if trace is None or network is None:
        return None
    if len(trace.ranks) != ranks or not trace.complete:
        complain("the trace is not of a whole run of this job, so bytes alone decide the order")
        return None
    library: Literal["openmpi", "mpich"] = "mpich" if family == "mpich" else "openmpi"
    try:
        replay = JobReplay(network, trace, MessageCosts(library=library, most_events=MOST_EVENTS), seed)
        _ = replay.least_s
    except GavotteError as error:
        complain(f"bytes alone decide the order: {error}")
        return None
    for warning in replay.warnings:
        complain(f"trace: {warning}")
    startup_s = max(rank.startup_s for rank in trace.ranks)
    traced_s = max(rank.wall_s for rank in trace.ranks)
    return TracedJob(replay, startup_s, traced_s, past)


def replayed_order(
    job: TracedJob,
    order: RankOrder,
    default: Sequence[str],
    slots: Mapping[str, int],
    network: Network,
    app: App,
    effort: Effort,
) -> RankOrder:
    """Return the order with the least replayed time, or the launcher's own if that saves less than `LEAST_SAVING`.

    Orders of earlier runs stay unless another saves `LEAST_SAVING`: runs in one order predict the next one best.

    Args:
        job: the job.
        order: the order that was found for the messages' bytes.
        default: host of each rank in the launcher's own order.
        slots: largest number of ranks on each host.
        network: the Network.
        app: the job's messages.
        effort: time limit and seed of the search.

    Raises:
        GavotteError: when the replay cannot go on.
    """
    seconds = job.replay.seconds
    earlier = [list(each.order) for each in reversed(job.past) if _fits(each.order, slots, len(default))]
    starts = [list(each) for each in dict.fromkeys(tuple(each) for each in (default, order.hosts, *earlier))]
    best = improve_order(starts, slots, seconds, effort)
    # What a run takes outside of MPI is saved by no order.
    whole_s = job.outside_s + best.seconds
    chosen = next(
        (each for each in earlier if job.outside_s + seconds(each) <= whole_s * (1 + LEAST_SAVING)), best.hosts
    )
    default_s = job.outside_s + seconds(default)
    if job.outside_s + seconds(chosen) > default_s * (1 - LEAST_SAVING):
        chosen = list(default)
    names = [task.name for task in app.task]
    cloud = with_slots(network, slots)
    messages_s = evaluate(cloud, [app], dict(zip(names, chosen, strict=True))).completion_s
    return replace(order, hosts=chosen, completion_s=messages_s, bound_s=min(order.bound_s, messages_s))


def _fits(order: Sequence[str], slots: Mapping[str, int], ranks: int) -> bool:
    """Return whether an earlier order is possible now."""
    return len(order) == ranks and all(count <= slots.get(host, 0) for host, count in Counter(order).items())
