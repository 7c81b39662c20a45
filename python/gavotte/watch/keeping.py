"""Run `gavotte watch`: detect changes, keep the Network's file up to date, and evaluate running applications again."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavotte.errors import GavotteError
from gavotte.formats.network import Network, write_network
from gavotte.place import Running, evaluate
from gavotte.watch.belief import expected_times, renewed
from gavotte.watch.loop import MOST_MOVED, Event, Watcher, follow, watch
from gavotte.watch.observing import Tail
from gavotte.watch.probing import Probe
from gavotte.watch.reassessing import Reassessment, reassess

USUAL_BAND = 0.05

LEAST_BAND = 0.03
"""Least band taken from a Network. Snapshots of one session scatter less than those of different days, which agree
within 3 to 5 %."""

LOOK_S = 0.5
"""Seconds between two looks for new observations."""


@dataclass(frozen=True)
class Notice:
    """An event, and its consequence for the running applications.

    Attributes:
        event: what happened.
        placement: the running placement evaluated again; None = nothing runs, or the event does not concern it.
        seed: seed of every random choice.
    """

    event: Event
    placement: Reassessment | None
    seed: int

    @property
    def document(self) -> dict[str, Any]:
        """The notice as a dictionary that can be written as JSON."""
        document: dict[str, Any] = vars(self.event) | {"moves": [vars(move) for move in self.event.moves]}
        if self.placement is not None:
            document["placement"] = self.placement.document
        return document | {"seed": self.seed}


@dataclass(frozen=True)
class Kept:
    """The state at the end of a watch.

    Attributes:
        network: the up-to-date Network.
        taken: number of measurements, or of operations if only operations were followed.
        hosts: number of watched hosts.
        gone: the watched hosts that did not answer at the end.
    """

    network: Network
    taken: int
    hosts: int
    gone: frozenset[str]


@dataclass(frozen=True)
class WatchQuestion:
    """The network to watch, the source of its times, and the limits of a change.

    Attributes:
        network: the Network as it is known at the start.
        hosts: inventory of the hosts to measure, as `agents.resolve_hosts` takes it; None = measure nothing.
        observations: `*.jsonl` of `gavotte.mpi.observing` or the preloaded library; need not exist yet.
        every_s: pause between two measurements, in seconds.
        method: how to measure, one of `measure.METHODS`.
        band: standard deviation of the logarithm of undisturbed times; None = the Network's band, at least
            `LEAST_BAND`, or else `USUAL_BAND`.
        threshold: as for `Watcher`.
        most_moved: as for `Watcher`.
        count: stop after this many measurements; without hosts, operations. None = never.
        seed: of every random choice.
    """

    network: Network
    hosts: str | None = None
    observations: Path | None = None
    every_s: float = 60.0
    method: str = "train"
    band: float | None = None
    threshold: float | None = None
    most_moved: float = MOST_MOVED
    count: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class WatchSession:
    """Callbacks and files of one watch.

    Attributes:
        wait: called to wait this many seconds; returns whether to stop.
        notify: called with each event, at once.
        complain: called with a line for each problem that does not end the watch.
        alive: called repeatedly while the watch runs, with the number of measurements (operations), of reachable hosts,
            and of all hosts.
        running: returns the applications that run, which are reviewed when pairs have moved and when hosts have come or
            gone. Called each time, as tasks may have moved since. None = nothing runs.
        output: file in which the Network is kept up to date.
    """

    wait: Callable[[float], bool]
    notify: Callable[[Notice], None]
    complain: Callable[[str], None]
    alive: Callable[[int, int, int], None] = lambda _taken, _here, _hosts: None
    running: Callable[[], Running] | None = None
    output: Path | None = None


def keep(question: WatchQuestion, session: WatchSession) -> Kept:
    """Watch until `session.wait` says stop, by measurements, by an application's own operations, or by both.

    Raises:
        GavotteError: when the running placement cannot be evaluated, the output cannot be written, neither hosts
            nor observations are given, or an option is invalid. Also when no pair of the Network has a rate.
    """
    network, hosts, observations, seed = question.network, question.hosts, question.observations, question.seed
    wait, complain, running, output = session.wait, session.complain, session.running, session.output
    if hosts is None and observations is None:
        raise GavotteError("there is nothing to watch", hint="use hosts, observations or both")
    if len(network.hosts) > 1 and not network.any_rate:
        raise GavotteError(
            "no pair of the network has a rate, so that no time of a transfer is expected",
            hint="measure the hosts to watch, and use their Network",
        )
    if running is not None:
        first = running()
        evaluate(network, first.placement.in_order(first.apps), first.placement.assignment)
    probe = None if hosts is None else Probe(hosts, question.method, network.names, complain, seed=seed)
    width = (
        question.band
        if question.band is not None
        else USUAL_BAND
        if network.band is None
        else max(LEAST_BAND, network.band)
    )
    measure = None if probe is None else probe.measure
    watcher = Watcher(
        expected_times(network),
        width,
        measure,
        seed=seed,
        threshold=question.threshold,
        most_moved=question.most_moved,
        complain=complain,
    )

    def goes_on(taken: int) -> None:
        session.alive(taken, len(watcher.present), len(watcher.hosts))

    tail = None if observations is None else Tail(observations, complain)
    if output is not None:
        write_network(output, network)
    if observations is not None and not observations.exists():
        complain(f"{observations} does not exist yet; waiting for it")
    belief = network

    def report(event: Event) -> None:
        nonlocal belief
        before, belief = belief, renewed(belief, event)
        advice = None
        if running is not None and (event.moves or event.kind in ("gone", "came")):
            try:
                # Hosts that the inventory no longer lists are not among the watcher's hosts.
                gone = watcher.gone | (set(network.names) - set(watcher.hosts) if probe is not None else set())
                advice = reassess(before, belief, running(), gone=gone, seed=seed)
            except GavotteError as error:
                complain(f"cannot judge the running placement: {error}")
        if output is not None and belief is not before:
            try:
                write_network(output, belief)
            except GavotteError as error:
                complain(str(error))
        session.notify(Notice(event, advice, seed))

    with closing(probe) if probe is not None else nullcontext():

        def pause(seconds: float) -> bool:
            """Wait this many seconds and process the operations that end meanwhile. Return whether to stop."""
            if tail is None:
                return wait(seconds)
            end_s = time.monotonic() + seconds
            while True:
                for operation in tail.read():
                    for event in watcher.observe(operation):
                        report(event)
                left_s = end_s - time.monotonic()
                stop = wait(max(0.0, min(LOOK_S, left_s)))
                if stop or left_s <= LOOK_S:
                    return stop

        if probe is not None:
            taken = watch(
                watcher,
                every_s=question.every_s,
                wait=pause,
                report=report,
                hosts=probe.hosts,
                count=question.count,
                alive=goes_on,
            )
        else:
            assert tail is not None
            taken = follow(watcher, tail, every_s=LOOK_S, wait=wait, report=report, count=question.count, alive=goes_on)
    return Kept(belief, taken, len(watcher.hosts), frozenset(watcher.hosts) - frozenset(watcher.present))
