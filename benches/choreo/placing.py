"""Places one workload by each method, and predicts each placement by the fluid model."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benches.choreo.workloads import AT_ONCE, Workload

from gavotte.errors import InfeasibleError
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.place import Effort, place
from gavotte.place.sequence import sequence
from gavotte.simulate import Advance

OURS = "auto"
CHOREO = "greedy"
BASELINES = ("random", "round-robin", "min-machines")
METHODS = (OURS, CHOREO, *BASELINES)
NAMES = {OURS: "ours", CHOREO: "greedy"}


@dataclass(frozen=True)
class Placed:
    """A workload under one method.

    Attributes:
        method: which.
        placement: of all its applications.
        predicted_s: the measure by the fluid model on the network that it was placed on.
    """

    method: str
    placement: Placement
    predicted_s: float


def place_all(
    network: Network, load: Workload, methods: Sequence[str] = METHODS, *, limit_s: float = 1.0, ours: str = OURS
) -> dict[str, Placed]:
    """Place a workload by each method.

    Args:
        network: the measured cloud.
        load: the workload.
        methods: of `METHODS`.
        limit_s: for each placement of ours.
        ours: the method that `OURS` stands for, all at once.

    Raises:
        InfeasibleError: when one of them gets stuck.
    """
    advance = Advance(network)
    values = {}
    for method in methods:
        try:
            values[method] = _placed(network, load, method, ours if method == OURS else method, limit_s, advance)
        except InfeasibleError as error:
            raise InfeasibleError(f"{NAMES.get(method, method)}: {error}") from None
    return values


def _placed(network: Network, load: Workload, method: str, how: str, limit_s: float, advance: Advance) -> Placed:
    if load.kind == AT_ONCE:
        placement = place(network, load.apps, how, seed=load.seed, time_limit_s=limit_s)
        return Placed(method, placement, advance(load.apps, [placement.assignment]).finish_s[0])
    done = sequence(network, load.apps, advance, effort=Effort(method=method, seed=load.seed, time_limit_s=limit_s))
    return Placed(method, done.placement, done.sum_s)


def scale(network: Network, load: Workload, target_s: float) -> Workload:
    """Scale a workload so that it takes about `target_s`, with gaps between arrivals of half of that in the mean.

    All at once, the mean of the baselines takes this time. In sequence, the mean application takes it, placed at random
    and alone.

    Raises:
        InfeasibleError: when a baseline gets stuck.
    """
    if load.kind == AT_ONCE:
        times = [placed.predicted_s for placed in place_all(network, load, BASELINES).values()]
    else:
        alone = [replace(load, kind=AT_ONCE, apps=[app]) for app in load.apps]
        times = [place_all(network, each, ["random"])["random"].predicted_s for each in alone]
    mean_s = statistics.fmean(times)
    if mean_s == 0:
        raise InfeasibleError("baselines: nothing crosses the network")
    return load.scaled(target_s / mean_s, gap_s=target_s / 2)
