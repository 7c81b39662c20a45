"""Compares the prediction of unmeasured pairs with matrix completion and network coordinates.

    make bench-scale ARGS="rivals [--sizes 128 1024 --count 3 --seed 0]"

Ours is `measure --scale structure` and `model`. The others (`completion`) learn from exactly the same measured pairs, and
then from as many pairs that are drawn at random, which suits them better. The pairs that check our measurement choose their
settings, by cross-validation. Errors are those of pairs that were not measured.

- *racks* are the clouds of `ARGS="clouds"` whose hosts' caps limit what they send, and *alike* those whose caps also limit
  what they receive. Coordinates suit the latter: the longer one of two inverse rates is half their sum and difference.
- *rank-3* and *plane* favour the others: rates are products of factors of hosts, or fall with the distance in a plane.

*off* is the share of unmeasured pairs that are off by more than 5 %. *stated* is the most that the measurement printed for
all pairs. If it is large, the user is to measure all pairs: with more than 24 hosts, `measure` does not do so automatically.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benches.machine import machine
from benches.recorded import command_line, write_figure
from benches.scale.clouds import MOST_PAIRS, predicted_bps
from benches.scale.completion import RIVALS, Samples, tuned
from benches.scale.worlds import FEWEST_HOSTS, PlayedWorld, World, drawn_cloud, low_rank_world, pairs_of, plane_world

from gavotte.formats.history import Floats, History, Ints
from gavotte.measure import MeasureQuestion, carry_out, plan_measurement
from gavotte.model import check_held_out, find_constant, model
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.held_out import OFF

READING = 0.002
"""Deviation of the logarithm of a reading of a pair that is drawn at random, as of simulated trains."""

OURS = "ours"
WORLDS: dict[str, Callable[[int, int], World]] = {
    "racks": partial(drawn_cloud, receiving=False),
    "alike": partial(drawn_cloud, receiving=True),
    "rank-3": low_rank_world,
    "plane": plane_world,
}
COLUMNS = ["world, hosts, method", "pairs", "settings", "median error", "99 %", "off", "stated"]
WIDTHS = [44, 7, 58, 13, 9, 9, 9]


@dataclass
class Row:
    """The errors of one method in worlds of one kind and size.

    Attributes:
        errors: relative errors of unmeasured pairs, of each world.
        shares: measured pairs as a share of all.
        settings: settings that were chosen, and how often.
        most_off: what measurements printed as the most that may be off.
    """

    errors: list[Floats] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    settings: Counter[str] = field(default_factory=Counter)
    most_off: list[float] = field(default_factory=list)

    def cells(self, name: str) -> list[str]:
        """Return the row of the table."""
        together = np.concatenate(self.errors)
        settings = "; ".join(f"{text} ({count})" for text, count in self.settings.most_common(1))
        return [
            name,
            f"{100 * float(np.mean(self.shares)):.0f} %",
            settings,
            f"{100 * float(np.median(together)):.2f} %",
            f"{100 * float(np.quantile(together, 0.99)):.1f} %",
            f"{100 * float((together > OFF).mean()):.2f} %",
            f"{100 * float(np.mean(self.most_off)):.1f} %" if self.most_off else "",
        ]


@dataclass(frozen=True)
class Compared:
    """A measured world, and the pairs by which predictions are compared with it.

    Attributes:
        world: the world.
        history: the measurement, without the hosts that never answered.
        samples: measured pairs, by index of `hosts`.
        held_out: (M,) pairs among them that check the measurement.
        sources: senders of unmeasured pairs, by index of the world.
        targets: their receivers.
    """

    world: World
    history: History
    samples: Samples
    held_out: npt.NDArray[np.bool_]
    sources: Ints
    targets: Ints

    @property
    def true_bps(self) -> Floats:
        """Rates of the unmeasured pairs."""
        return self.world.rates_bps(self.sources, self.targets) * GOODPUT_PER_WIRE

    def errors(self, rates_bps: Floats) -> Floats:
        """Return the relative errors of predictions of the unmeasured pairs."""
        return np.asarray(np.abs(rates_bps / self.true_bps - 1))

    def near(self, hosts: Ints) -> Ints:
        """Return hosts of the world by their index among those that answer."""
        return np.searchsorted(self.world.alive, hosts)


def compared(world: World, seed: int) -> Compared:
    """Measure a world by few pairs."""
    network = PlayedWorld(world, seed=seed)
    with network.held(network.missing):
        result = carry_out(plan_measurement(MeasureQuestion(network.inventory, seed=seed, scale="structure")))
    history = result.history.without(result.missing)
    rates_bps = 8 * history.beta_Bps[-1]
    known = np.isfinite(rates_bps)
    i, j = np.nonzero(known)
    checks = np.zeros(known.shape, dtype=np.bool_) if history.held_out is None else history.held_out > 0
    sources, targets = pairs_of(world, MOST_PAIRS, seed)
    alive = world.alive
    left = ~known[np.searchsorted(alive, sources), np.searchsorted(alive, targets)]
    samples = Samples(len(alive), i, j, rates_bps[known])
    return Compared(world, history, samples, checks[known], sources[left], targets[left])


def drawn_samples(it: Compared, seed: int) -> Samples:
    """Return as many pairs as were measured, drawn at random, with readings of their rates."""
    rng = np.random.default_rng([seed, 1])
    size, count = it.samples.size, len(it.samples.sources)
    chosen = rng.choice(size * (size - 1), count, replace=False)
    i, j = np.divmod(chosen, size - 1)
    j = j + (j >= i)
    alive = it.world.alive
    rates_bps = it.world.rates_bps(alive[i], alive[j]) * GOODPUT_PER_WIRE * np.exp(rng.normal(0, READING, count))
    return Samples(size, i, j, rates_bps)


def run(world: World, seed: int, rows: dict[str, Row]) -> None:
    """Predict the unmeasured pairs of one world by all methods, and add the errors to the rows."""
    it = compared(world, seed)
    size = it.samples.size
    share = len(it.samples.sources) / (size * (size - 1))
    learned = model(it.history, constant=find_constant(it.history, method="last", fill=True))
    check = check_held_out(it.history)
    ours = rows[OURS]
    ours.errors.append(it.errors(predicted_bps(world, learned, it.sources, it.targets)))
    ours.shares.append(share)
    ours.most_off.append(1.0 if check is None else check.most_share)
    rng = np.random.default_rng([seed, 2])
    drawn = drawn_samples(it, seed)
    for name, samples, checks in (
        ("the same pairs", it.samples, it.held_out),
        ("random pairs", drawn, rng.random(len(drawn.sources)) < it.held_out.mean()),
    ):
        for rival in RIVALS:
            best = tuned(rival, samples, checks, seed)
            row = rows[f"{rival.name}, {name}"]
            row.errors.append(it.errors(best.predict(it.near(it.sources), it.near(it.targets))))
            row.shares.append(share)
            row.settings[best.text] += 1


def table_line(cells: Sequence[str]) -> str:
    """Return a printed row."""
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 1024], help="numbers of hosts")
    parser.add_argument("--count", type=int, default=3, help="worlds of each kind and size")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first world of each kind and size")
    parser.add_argument("--worlds", nargs="+", choices=[*WORLDS], default=[*WORLDS], help="kinds of worlds")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    args = parser.parse_args(arguments)
    if min(args.sizes) < FEWEST_HOSTS:
        parser.error(f"--sizes: worlds have at least {FEWEST_HOSTS} hosts")
    about = machine()
    print(f"{about}; seeds {args.seed} to {args.seed + args.count - 1} of each kind and size")
    print(table_line(COLUMNS), flush=True)
    table = []
    for kind in args.worlds:
        for hosts in args.sizes:
            rows: dict[str, Row] = defaultdict(Row)
            begin_s = time.perf_counter()
            for seed in range(args.seed, args.seed + args.count):
                run(WORLDS[kind](hosts, seed), seed, rows)
            for name, row in rows.items():
                table.append(row.cells(f"{kind}, {hosts:,}: {name}"))
                print(table_line(table[-1]), flush=True)
            print(f"  ({time.perf_counter() - begin_s:.0f} s)", flush=True)
    if args.record is not None:
        write_figure(
            args.record / "many-hosts-rivals.json",
            title="Unmeasured pairs that are off by more than 5 %",
            command=command_line("scale", args.record),
            seed=f"{args.seed} to {args.seed + args.count - 1}",
            samples=f"{args.count} simulated worlds of each kind and size",
            about=about,
            columns=COLUMNS,
            rows=table,
            plot={"kind": "bars", "columns": [COLUMNS.index("off")], "unit": "% of unmeasured pairs"},
        )
