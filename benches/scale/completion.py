"""Three published ways to predict the rates of unmeasured pairs from measured ones, without knowing any racks.

Each predicts rates or their logarithms, with settings that predict held-out pairs best.

- Alternating least squares (Zhou et al., AAIM 2008): a matrix of low rank, the factors of senders and of receivers in
  turns. Each host's squares count with its number of pairs.
- DMFSGD (Liao et al., IEEE/ACM Transactions on Networking 2013): the same matrix by stochastic gradient descent. In each
  round every host measures one other, and both move their factors.
- Vivaldi (Dabek et al., SIGCOMM 2004): coordinates whose distances are inverse rates, C / rate, since it is made for
  round trips, which add up. Distances have no direction, so both directions of a pair count alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import Floats, Ints

SWEEPS = 30
"""Turns of alternating least squares. Twice as many change no error by a tenth."""

ROUNDS = 1500
"""Rounds of the others, in each of which a host uses one pair: each pair is used some 70 times."""

LAST = 0.1
"""Step of the last round of DMFSGD, as a share of the first one."""

GAIN = 0.25
"""Vivaldi's constant of the mean error of a host, as its paper has it."""

FOLDS = 4
"""Parts of the held-out pairs."""

FAR_OFF = 1.0
"""Largest error that counts when settings are chosen, as a logarithm, so that no single pair chooses them."""

LEAST = 1e-9

Predict = Callable[[Ints, Ints], Floats]
"""Predicts the rates of M pairs, from sources and targets, in bit/s."""

Settings = Mapping[str, float | bool]


@dataclass(frozen=True)
class Samples:
    """Measured pairs.

    Attributes:
        size: number of hosts, N.
        sources: (M,) senders, by index.
        targets: (M,) receivers.
        rates_bps: (M,) rates.
    """

    size: int
    sources: Ints
    targets: Ints
    rates_bps: Floats

    def only(self, chosen: npt.NDArray[np.bool_]) -> Samples:
        """Return some of the pairs."""
        return Samples(self.size, self.sources[chosen], self.targets[chosen], self.rates_bps[chosen])

    def limited(self, rates_bps: Floats) -> Floats:
        """Return rates within those that were measured: a prediction beyond them would only be worse."""
        low_bps, high_bps = self.rates_bps.min(), self.rates_bps.max()
        return np.asarray(np.clip(np.nan_to_num(rates_bps, nan=low_bps), low_bps, high_bps))


@dataclass(frozen=True)
class Rival:
    """A way to predict rates.

    Attributes:
        name: as the table has it.
        grid: values that are tried of each setting.
        learn: learns from pairs with one choice of settings and a seed.
    """

    name: str
    grid: Mapping[str, tuple[float | bool, ...]]
    learn: Callable[[Samples, Settings, int], Predict]

    def choices(self) -> Iterator[dict[str, float | bool]]:
        """Yield all settings that are tried."""
        for values in itertools.product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))


@dataclass(frozen=True)
class Tuned:
    """What a rival learnt from all pairs, with the settings that predicted held-out ones best."""

    predict: Predict
    settings: Settings

    @property
    def text(self) -> str:
        """The settings as the table has them."""
        return ", ".join(f"{name} {_word(value)}" for name, value in self.settings.items())


def _word(value: float | bool) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:g}"


def tuned(rival: Rival, samples: Samples, held_out: npt.NDArray[np.bool_], seed: int) -> Tuned:
    """Choose settings by held-out pairs, then learn from all.

    Each part of the held-out pairs is predicted from all other pairs: without any of them, little would show how racks
    are related.

    Args:
        rival: the method.
        samples: all measured pairs.
        held_out: (M,) pairs that choose the settings.
        seed: seed of the parts, and of the first factors or coordinates.
    """
    part = np.where(held_out, np.random.default_rng(seed).integers(FOLDS, size=len(held_out)), FOLDS)
    best: dict[str, float | bool] = {}
    least = np.inf
    for settings in rival.choices():
        wrong = 0.0
        for fold in range(FOLDS):
            checked = samples.only(part == fold)
            predict = rival.learn(samples.only(part != fold), settings, seed)
            off_by = np.abs(np.log(predict(checked.sources, checked.targets) / checked.rates_bps))
            wrong += float(np.minimum(off_by, FAR_OFF).sum())
        if wrong < least:
            best, least = settings, wrong
    return Tuned(rival.learn(samples, best, seed), best)


class _Scale:
    """Rates as numbers near 1, or their logarithms near 0."""

    def __init__(self, samples: Samples, *, logarithms: bool) -> None:
        self._samples = samples
        self._logarithms = logarithms
        self._usual_bps = float(np.median(samples.rates_bps))

    @property
    def values(self) -> Floats:
        """The measured rates as such numbers."""
        shares = self._samples.rates_bps / self._usual_bps
        return np.asarray(np.log(shares) if self._logarithms else shares)

    def rates_bps(self, values: Floats) -> Floats:
        """Return such numbers as rates."""
        shares = np.exp(np.clip(values, -50, 50)) if self._logarithms else values
        return self._samples.limited(shares * self._usual_bps)


def _product(scale: _Scale, senders: Floats, receivers: Floats, mean: float = 0.0) -> Predict:
    def predict(sources: Ints, targets: Ints) -> Floats:
        return scale.rates_bps(mean + (senders[sources] * receivers[targets]).sum(axis=1))

    return predict


def _by_least_squares(samples: Samples, settings: Settings, seed: int) -> Predict:
    scale = _Scale(samples, logarithms=bool(settings["logarithms"]))
    rank, ridge = int(settings["rank"]), float(settings["ridge"])
    # Without the mean, pairs of which nothing is known are predicted near it. But a matrix of rank 3 then has rank 4.
    mean = float(scale.values.mean()) if settings["centred"] else 0.0
    values = scale.values - mean
    receivers = np.random.default_rng(seed).normal(0, 1, (samples.size, rank))
    senders = np.zeros_like(receivers)
    for _ in range(SWEEPS):
        senders = _solved(samples.sources, receivers[samples.targets], values, ridge, samples.size)
        receivers = _solved(samples.targets, senders[samples.sources], values, ridge, samples.size)
    return _product(scale, senders, receivers, mean)


def _solved(ends: Ints, others: Floats, values: Floats, ridge: float, size: int) -> Floats:
    """Return the (N, K) factors of one end of all pairs for which the squares of what is left are least.

    Args:
        ends: (M,) hosts at that end.
        others: (M, K) factors at the other end.
        values: (M,) what the products should be.
        ridge: weight of the squares of factors, for each pair of a host.
        size: number of hosts, N.
    """
    rank = others.shape[1]
    squares = np.zeros((size, rank, rank))
    sums = np.zeros((size, rank))
    for a in range(rank):
        sums[:, a] = np.bincount(ends, others[:, a] * values, size)
        for b in range(a, rank):
            squares[:, a, b] = squares[:, b, a] = np.bincount(ends, others[:, a] * others[:, b], size)
    counts = np.bincount(ends, minlength=size)
    squares += (ridge * counts + LEAST)[:, None, None] * np.eye(rank)
    return np.asarray(np.linalg.solve(squares, sums[:, :, None])[:, :, 0])


class _Turns:
    """One pair of each host at a time, at random."""

    def __init__(self, sources: Ints, rng: np.random.Generator) -> None:
        self._order = np.argsort(sources, kind="stable")
        self.hosts, self._first, self._counts = np.unique(sources[self._order], return_index=True, return_counts=True)
        self._rng = rng

    def draw(self) -> Ints:
        """Return the number of a pair of each of `hosts`."""
        at = (self._rng.random(len(self.hosts)) * self._counts).astype(np.int64)
        return np.asarray(self._order[self._first + at])


def _by_gradients(samples: Samples, settings: Settings, seed: int) -> Predict:
    scale = _Scale(samples, logarithms=bool(settings["logarithms"]))
    rank, ridge = int(settings["rank"]), float(settings["ridge"])
    values = scale.values
    rng = np.random.default_rng(seed)
    # Products of the first factors are about 1.
    senders, receivers = (rng.uniform(0, 2 / np.sqrt(rank), (samples.size, rank)) for _ in range(2))
    turns = _Turns(samples.sources, rng)
    with np.errstate(over="ignore", invalid="ignore"):
        for number in range(ROUNDS):
            step = float(settings["step"]) * (1 - (1 - LAST) * number / ROUNDS)
            pairs = turns.draw()
            hosts, others = turns.hosts, samples.targets[pairs]
            mine, theirs = senders[hosts], receivers[others]
            wrong = (values[pairs] - (mine * theirs).sum(axis=1))[:, None]
            senders[hosts] = (1 - step * ridge) * mine + step * wrong * theirs
            # A receiver that several hosts measure moves for each of them.
            np.add.at(receivers, others, step * (wrong * mine - ridge * theirs))
    return _product(scale, senders, receivers)


def _by_coordinates(samples: Samples, settings: Settings, seed: int) -> Predict:
    usual_bps = float(np.median(samples.rates_bps))
    distances = usual_bps / samples.rates_bps
    ends = np.concatenate([samples.sources, samples.targets])
    others = np.concatenate([samples.targets, samples.sources])
    both = np.concatenate([distances, distances])
    rng = np.random.default_rng(seed)
    places = rng.normal(0, 0.1, (samples.size, int(settings["dimensions"])))
    heights = np.full(samples.size, 0.1 if settings["heights"] else 0.0)
    errors = np.ones(samples.size)
    turns = _Turns(ends, rng)
    for _ in range(ROUNDS):
        pairs = turns.draw()
        hosts, near = turns.hosts, others[pairs]
        across = places[hosts] - places[near]
        above = heights[hosts] + heights[near]
        flat = np.sqrt((across**2).sum(axis=1))
        distance = np.maximum(flat + above, LEAST)
        weight = errors[hosts] / (errors[hosts] + errors[near])
        wrong = np.abs(distance - both[pairs]) / both[pairs]
        force = float(settings["step"]) * weight * (both[pairs] - distance)
        places[hosts] += (force / np.maximum(flat, LEAST))[:, None] * across
        if settings["heights"]:
            heights[hosts] = np.maximum(heights[hosts] + force * above / distance, LEAST)
        errors[hosts] = np.maximum(wrong * GAIN * weight + errors[hosts] * (1 - GAIN * weight), LEAST)

    def predict(sources: Ints, targets: Ints) -> Floats:
        flat = np.sqrt(((places[sources] - places[targets]) ** 2).sum(axis=1))
        return samples.limited(usual_bps / np.maximum(flat + heights[sources] + heights[targets], LEAST))

    return predict


RIVALS = (
    Rival(
        "ALS",
        {
            "logarithms": (False, True),
            "centred": (False, True),
            "rank": (1, 3, 5, 8),
            "ridge": (1e-4, 1e-2, 1e-1),
        },
        _by_least_squares,
    ),
    Rival(
        "DMFSGD",
        {"logarithms": (False, True), "rank": (3, 10), "ridge": (1e-4, 1e-2, 1e-1), "step": (0.1, 0.3)},
        _by_gradients,
    ),
    Rival("Vivaldi", {"dimensions": (2, 3, 5), "heights": (False, True), "step": (0.05, 0.25)}, _by_coordinates),
)
