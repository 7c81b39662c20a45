"""Choreo's calibration (section 4.1, Fig. 6): find trains that are accurate enough on this network."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gavotte.agents import Budget, Neighbour, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.errors import AgentError, FormatError, GavotteError
from gavotte.formats.files.reading import Emitted, parse_json, read_text, validate
from gavotte.formats.inventory import Inventory
from gavotte.measure.plan.methods.choreo import BURST_GAP_S, choreo
from gavotte.measure.plan.methods.method import Method
from gavotte.measure.question import ProbeSession
from gavotte.tables import Tabular
from gavotte.terms.goodput import UDP_PAYLOAD_BYTES

BURSTS = (10, 20, 50)
PACKETS = (50, 200, 500, 1000, 2000, 4000)
PAYLOADS = (UDP_PAYLOAD_BYTES,)
"""K, B and P to try: those of the paper's Fig. 6, which has B from 0 to 4000."""

TRAIN_S = 5.0
"""Usual limit of one train's time."""
SLOWEST_BPS = 100e6
"""Trains may take longer on a slower path than this."""

GOOD_ERROR = 0.10
"""Mean error below which a train is good enough. The paper accepted 9 % on EC2."""


@dataclass(frozen=True)
class TrainError:
    """Accuracy of one kind of train.

    Attributes:
        bursts: K.
        packets: B.
        payload_bytes: P.
        mean_error: mean of |estimate - bulk| / bulk over all paths that answered.
        answered: number of paths that answered.
        bytes: payload of one train.
    """

    bursts: int
    packets: int
    payload_bytes: int
    mean_error: float
    answered: int
    bytes: int


@dataclass(frozen=True)
class Calibration(Tabular):
    """Result of a calibration.

    Attributes:
        trains: all kinds tried, cheapest first.
        best: the train to use, among those that answered on the most paths: the cheapest with an error below
            `GOOD_ERROR`, else the most accurate; None when none answered.
        paths: number of paths with a bulk rate to compare with.
        seed: seed of the choice of paths.
        beside: other runs that moved bytes between the hosts meanwhile. Trains and bulk TCP may have had different
            competing traffic.
    """

    trains: list[TrainError]
    best: TrainError | None
    paths: int
    seed: int
    beside: tuple[Neighbour, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """Reasons why the comparison is less reliable, one sentence each."""
        return [run.warning("trains and bulk TCP may have had different competing traffic") for run in self.beside]

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per kind of train."""
        return [vars(train) for train in self.trains]


class _Shape(Emitted):
    bursts: int
    packets: int
    payload_bytes: int = UDP_PAYLOAD_BYTES


class _Found(Emitted):
    best: _Shape | None


def calibrated(path: str | Path) -> Method:
    """Return the best trains of a calibration as a method to measure with.

    Args:
        path: the output of `gavotte measure calibrate --json`, or its file of `-o`.

    Raises:
        FormatError: naming file, field and remedy.
    """
    document = parse_json(read_text(path), str(path))
    if not isinstance(document, dict) or "best" not in document:
        raise FormatError(
            str(path), "", "is no calibration", "use a file that `gavotte measure calibrate -o C.json` wrote"
        )
    best = validate(_Found, document, str(path)).best
    if best is None:
        raise FormatError(str(path), "best", "is null: no train answered", "calibrate again")
    try:
        return choreo(bursts=best.bursts, packets=best.packets, payload_bytes=best.payload_bytes)
    except GavotteError as error:
        raise FormatError(str(path), "best", str(error), "calibrate again") from None


Shape = tuple[int, int, int]
"""K, B and P of a train."""


@dataclass(frozen=True)
class CalibrationQuestion:
    """Request of a calibration: the Choreo trains to compare with bulk TCP, and the paths to use.

    Attributes:
        inventory: the hosts.
        bursts: K to try.
        packets: B to try.
        payloads: P to try, UDP payload bytes.
        paths: number of directed paths, drawn at random.
        bulk_s: seconds of bulk TCP on each path (the paper: 10).
        seed: seed of the draw.
    """

    inventory: Inventory
    bursts: Sequence[int] = BURSTS
    packets: Sequence[int] = PACKETS
    payloads: Sequence[int] = PAYLOADS
    paths: int = 6
    bulk_s: float = 3.0
    seed: int = 0


@dataclass(frozen=True)
class CalibrationPlan:
    """Plan of a calibration: its paths and trains.

    Attributes:
        question: the request.
        pairs: (source, target) that are measured one after the other.
        shapes: the trains, the smallest first.
    """

    question: CalibrationQuestion
    pairs: Sequence[tuple[str, str]]
    shapes: Sequence[Shape]

    @property
    def longest_s(self) -> float:
        """Most time of one train."""
        return max(TRAIN_S, *(8 * k * b * p / SLOWEST_BPS for k, b, p in self.shapes))

    @property
    def budget(self) -> Budget:
        """Most bytes and seconds that each agent may spend."""
        seconds = self.question.bulk_s + len(self.shapes) * self.longest_s
        return Budget(max_bytes=0, max_seconds=len(self.pairs) * seconds + 60)

    @property
    def probes(self) -> list[pb.Probe]:
        """Bulk TCP and then each train, as they are sent on each pair."""
        bulk = pb.Bulk(seconds=self.question.bulk_s, flows=1, congestion="cubic", bin_s=0.0)
        trains = (pb.BurstTrain(bursts=k, packets=b, payload_bytes=p, gap_s=BURST_GAP_S) for k, b, p in self.shapes)
        return [pb.Probe(bulk=bulk), *(pb.Probe(burst_train=train) for train in trains)]


def plan_calibration(question: CalibrationQuestion) -> CalibrationPlan:
    """Choose the pairs and the trains of a calibration.

    Raises:
        GavotteError: for fewer than two hosts, or trains that agents refuse.
    """
    names = question.inventory.names
    if len(names) < 2:
        raise GavotteError("a single host has no path to measure", hint="use at least two hosts")
    everything = [(s, t) for s in names for t in names if s != t]
    pairs = random.Random(question.seed).sample(everything, min(question.paths, len(everything)))
    shapes = [(k, b, p) for k in question.bursts for b in question.packets for p in question.payloads]
    for k, b, p in shapes:
        choreo(bursts=k, packets=b, payload_bytes=p)
    return CalibrationPlan(question, pairs, sorted(shapes, key=lambda shape: shape[0] * shape[1] * shape[2]))


def calibrate(plan: CalibrationPlan, session: ProbeSession | None = None) -> Calibration:
    """Compare Choreo's trains of several shapes with bulk TCP on the same paths, one path at a time.

    Args:
        plan: pairs and trains.
        session: settings of the run.

    Raises:
        AgentError: when no path answers.
    """
    session = session or ProbeSession()
    question, shapes = plan.question, plan.shapes
    errors: dict[Shape, list[float]] = {shape: [] for shape in shapes}
    compared = 0
    held = enrolled(question.inventory, plan.budget, purpose="measure calibrate", take_over=session.take_over)
    with held as fleet:
        for done, (source, target) in enumerate(plan.pairs, start=1):
            if source in fleet.missing or target in fleet.missing:
                continue
            schedule = [[Step(source, target, probe)] for probe in plan.probes]
            answers = carry_out(fleet, schedule, round_s=question.bulk_s + plan.longest_s)
            replies = {answer.round: answer.reply for answer in answers if answer.reply and not answer.error}
            truth = replies.get(0)
            if truth is None:
                continue
            compared += 1
            for number, shape in enumerate(shapes, start=1):
                if reply := replies.get(number):
                    estimate_bps = choreo().read(reply).goodput_bps
                    errors[shape].append(abs(estimate_bps / truth.bulk.goodput_bps - 1))
            if session.progress is not None:
                session.progress(done, len(plan.pairs))
        beside = tuple(fleet.beside())
    if not compared:
        raise AgentError("no path answered with bulk TCP")
    outcomes = trains_of(errors)
    return Calibration(trains=outcomes, best=best_of(outcomes), paths=compared, seed=question.seed, beside=beside)


def trains_of(errors: Mapping[tuple[int, int, int], Sequence[float]]) -> list[TrainError]:
    """Return the accuracy of trains of each shape (K, B, P), from their errors on the paths that answered."""
    return [
        TrainError(k, b, p, float(np.mean(seen)) if seen else float("nan"), len(seen), k * b * p)
        for (k, b, p), seen in errors.items()
    ]


def best_of(trains: Sequence[TrainError]) -> TrainError | None:
    """Return the train to measure with; see `Calibration`."""
    # A train that answers on one path of six is not accurate on the others.
    most = max(train.answered for train in trains)
    answered = [train for train in trains if train.answered == most > 0]
    good = [train for train in answered if train.mean_error <= GOOD_ERROR]
    return good[0] if good else min(answered, key=lambda train: train.mean_error, default=None)
