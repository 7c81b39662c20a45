"""Figures 5 to 8, 10 and 11 by replay: trees and mappings from ten snapshots, judged on twenty later ones."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache

import numpy as np
from benches.rpca import traces
from benches.rpca.plots import Curve, Plots
from benches.rpca.stats import cdf, saved, table
from benches.rpca.traces import Trace

from gavotte.collective import TreeSearch, norm_of, plan, ranks_over, replay, with_noise
from gavotte.formats.collective import Operation
from gavotte.formats.history import Floats
from gavotte.formats.network import Network
from gavotte.mapping import map_tasks, times_s
from gavotte.model import METHODS, model

CALIBRATED = 10
LATER = 20
SIZE_BYTES = 8_000_000
BASELINE, HEURISTIC, TRUTH = "baseline", "mean", "truth"
BEST = "auto"
"""The default of users."""
PAPERS = {
    0.1: "paper, EC2, Norm 0.1: 32 to 40 % over baseline, RPCA 8 to 10 % over heuristics",
    0.2: "paper, Norm 0.2: 20 to 28 % over baseline, RPCA 12 to 20 % over heuristics",
    0.5: "paper, Norm 0.5: marginal",
}


def spiky(size: int, norm: float, seed: int) -> Trace:
    """Add rare slow-downs of single values, as many as the norm requires."""
    generator = np.random.default_rng(seed)
    truth = traces.constant(size, generator)
    values = traces.snapshots(truth, CALIBRATED + LATER, slow_share(norm), generator)
    return _trace(values, truth)


@cache
def slow_share(norm: float) -> float:
    """Return the number of slow-downs for the norm, by bisection: many of them move medians, too."""
    low, high = 0.0, 0.95
    for _ in range(12):
        share = (low + high) / 2
        generator = np.random.default_rng(0)
        values = traces.snapshots(traces.constant(48, generator), LATER, share, generator)
        low, high = (share, high) if norm_of(values) < norm else (low, share)
    return (low + high) / 2


def walked(size: int, norm: float, seed: int) -> Trace:
    """Add the paper's random walk to all values until the norm is reached."""
    generator = np.random.default_rng(seed)
    truth = traces.constant(size, generator)
    quiet = traces.history_of(traces.snapshots(truth, CALIBRATED + LATER, 0.02, generator))
    return _trace(1 / with_noise(quiet, norm, seed=seed).history.beta_Bps, truth)


def _trace(values: Floats, truth: Floats) -> Trace:
    whole = traces.history_of(values)
    return Trace(
        traces.cut(whole, 0, CALIBRATED),
        traces.cut(whole, CALIBRATED, CALIBRATED + LATER),
        traces.network_of(truth),
        whole.hosts,
    )


def methods_to_run(wanted: list[str] | None) -> list[str]:
    """Return estimators of the model room, the heuristic first, and always `BEST`: our trees and mappings use it."""
    names = [name for name in METHODS if wanted is None or name in (BEST, *wanted)]
    return [HEURISTIC, *(name for name in names if name != HEURISTIC)]


def operations(trace: Trace, networks: dict[str, Network], root: str, seed: int) -> dict[str, dict[str, Floats]]:
    """Return, for broadcast, scatter and mapping, (LATER,) seconds by method; FNF and greedy as in the paper."""
    values: dict[str, dict[str, Floats]] = {}
    last = networks[HEURISTIC]
    kinds: tuple[Operation, ...] = ("broadcast", "scatter")
    for operation in kinds:

        def timed(
            network: Network, algorithm: str, segments: int | None = None, operation: Operation = operation
        ) -> Floats:
            made = plan(
                network,
                operation,
                size_bytes=SIZE_BYTES,
                root=root,
                algorithm=algorithm,
                segments=segments,
                search=TreeSearch(steps=30_000, seed=seed),
            )
            return replay(trace.later, made)

        times = {BASELINE: timed(last, "binomial")}
        times |= {name: timed(network, "fnf") for name, network in networks.items()}
        times["ours, whole"] = timed(networks[BEST], "search", 1)
        times["ours"] = timed(networks[BEST], "search")
        times["ours, truth"] = timed(trace.truth, "search")
        values[operation] = times
    app = traces.task_graph(len(trace.ranks), np.random.default_rng(seed))

    def mapped(network: Network, method: str) -> Floats:
        placed = map_tasks(network, app, method)
        return times_s(app, ranks_over(trace.later, list(placed.assignment.values())))

    times = {BASELINE: mapped(last, "ring")}
    times |= {name: mapped(network, "greedy") for name, network in networks.items()}
    times["ours"] = mapped(networks[BEST], "exchange")
    times["ours, truth"] = mapped(trace.truth, "exchange")
    values["mapping"] = times
    return values


def repeated(
    make: Callable[[int, float, int], Trace], size: int, norm: float, seeds: int, first: int, names: list[str]
) -> tuple[dict[str, dict[str, Floats]], dict[str, Floats], float]:
    """Return means a cloud (one cloud and root each repetition), all broadcast times, and the reached norm."""
    means: dict[str, dict[str, list[float]]] = {}
    broadcasts: dict[str, list[Floats]] = {}
    norms = []
    for seed in range(first, first + seeds):
        trace = make(size, norm, seed)
        norms.append(norm_of(1 / trace.later.beta_Bps))
        networks = {name: model(trace.calibration, method=name) for name in names}
        networks[TRUTH] = trace.truth
        root = f"h{np.random.default_rng(seed).integers(size)}"
        for operation, times in operations(trace, networks, root, seed).items():
            for name, seconds in times.items():
                means.setdefault(operation, {}).setdefault(name, []).append(float(seconds.mean()))
                if operation == "broadcast":
                    broadcasts.setdefault(name, []).append(seconds)
    return (
        {operation: {name: np.array(values) for name, values in times.items()} for operation, times in means.items()},
        {name: np.concatenate(values) for name, values in broadcasts.items()},
        float(np.mean(norms)),
    )


def figures(arguments: argparse.Namespace) -> None:
    """Print figures 7, 8, 10 and 11."""
    names = methods_to_run(arguments.methods)
    for kind, make in (("rare slow-downs", spiky), ("random walk of the paper", walked)):
        curve: list[tuple[float, dict[str, dict[str, Floats]]]] = []
        for norm in arguments.norms:
            means, broadcasts, met = repeated(make, arguments.size, norm, arguments.seeds, arguments.seed, names)
            print(
                f"\nFig. 7, 10, 11: {kind}, Norm(N_E) {met:.3f} (wanted {norm}, tolerance 10 %, load removed), "
                f"N = {arguments.size}, {arguments.seeds} clouds x {LATER} later snapshots\n  {PAPERS.get(norm, '')}"
            )
            for operation, times in means.items():
                print(f"  {operation}\n{table(times, BASELINE, HEURISTIC)}")
            shown = [name for name in (BASELINE, HEURISTIC, "rpca", BEST, "ours", TRUTH) if name in broadcasts]
            print(cdf(broadcasts, BASELINE, list(dict.fromkeys(shown))), flush=True)
            arguments.plots.cdf(
                f"Fig. 7b, 11b: broadcast, {kind}, Norm {met:.2f}", broadcasts, BASELINE, list(dict.fromkeys(shown))
            )
            curve.append((met, means))
        figure_10(kind, curve, "rpca" if "rpca" in names else BEST, arguments.plots)
    method = "rpca"
    print(f"\nFig. 8: {method} over baseline by number of hosts (paper: 196 hosts gain more than 64), Norm 0.1")
    for size in (64, 196):
        means, _, _ = repeated(spiky, size, 0.1, arguments.seeds, arguments.seed, [HEURISTIC, method, BEST])
        row = {operation: saved(times[method], times[BASELINE]) for operation, times in means.items()}
        print(f"  N = {size:>4}: " + ", ".join(f"{operation} {text} %" for operation, text in row.items()), flush=True)


def figure_10(kind: str, curve: list[tuple[float, dict[str, dict[str, Floats]]]], method: str, plots: Plots) -> None:
    """Print gains over the norm: by operation (a), and of broadcasts by method (b)."""
    print(
        f"\nFig. 10: % less than baseline by Norm(N_E), {kind} (paper: above 40 % below Norm 0.1, under 20 % above 0.2; at 0.2 "
        "RPCA gains 20 % more than heuristics)"
    )
    rows = {f"{operation}, {method}": (operation, method) for operation in ("broadcast", "scatter", "mapping")}
    rows |= {f"broadcast, {name}": ("broadcast", name) for name in (HEURISTIC, "ours, whole", "ours", TRUTH)}
    print(f"    {'Norm(N_E)':<24} " + " ".join(f"{norm:>14.3f}" for norm, _ in curve))
    lines: dict[str, Curve] = {}
    for label, (operation, name) in rows.items():
        pairs = [(means[operation][name], means[operation][BASELINE]) for _, means in curve]
        print(f"    {label:<24} " + " ".join(f"{saved(own, base):>14}" for own, base in pairs), flush=True)
        gains = [100 * (1 - float(own.mean() / base.mean())) for own, base in pairs]
        lines[label] = ([norm for norm, _ in curve], gains)
    plots.lines(f"Fig. 10: {kind}", "Norm(N_E)", f"% less than {BASELINE}", lines)


def steps(arguments: argparse.Namespace) -> None:
    """Print figure 5: how many snapshots are enough."""
    names = methods_to_run(arguments.methods)
    print("\nFig. 5: % of pairs more than 10 % off the constant of 30 snapshots, rare slow-downs, Norm 0.2, 3 clouds")
    print(f"    {'snapshots':<16} " + " ".join(f"{count:>6}" for count in (2, 3, 5, 7, 10, 15, 20)))
    off = ~np.eye(arguments.size, dtype=bool)

    def rates(network: Network) -> Floats:
        return np.array(network.rate_bps, dtype=np.float64)[off]

    lines: dict[str, Curve] = {}
    for name in names:
        row, off_by = [], []
        for count in (2, 3, 5, 7, 10, 15, 20):
            shares = []
            for seed in range(arguments.seed, arguments.seed + 3):
                generator = np.random.default_rng(seed)
                values = traces.snapshots(traces.constant(arguments.size, generator), 30, 0.17, generator)
                whole = traces.history_of(values)
                few, all_of = model(traces.cut(whole, 0, count), method=name), model(whole, method=name)
                shares.append(float((np.abs(rates(all_of) / rates(few) - 1) > 0.1).mean()))
            off_by.append(100 * float(np.mean(shares)))
            row.append(f"{off_by[-1]:>6.2f}")
        lines[name] = ((2, 3, 5, 7, 10, 15, 20), off_by)
        print(f"    {name:<16} " + " ".join(row), flush=True)
    arguments.plots.lines("Fig. 5", "snapshots", "% of pairs more than 10 % off", lines)


def threshold(arguments: argparse.Namespace) -> None:
    """Print figure 6: when to calibrate again, by the paper's threshold on the operation's time."""
    size, length, moves = 64, 400, 3
    method = "rpca"
    print(
        f"\nFig. 6: {length} broadcasts on {size} hosts, {moves} times 3 hosts move, Norm 0.1, {method}; one calibration is "
        f"{CALIBRATED} x {2 * size} rounds of 8 MB; means over {min(8, arguments.seeds)} runs (paper: 100 % is best, below 20 % ruins)"
    )
    means: list[tuple[float, float, float]] = []
    for limit in (0.2, 0.5, 1.0, 1.5, np.inf):
        sums = []
        for seed in range(arguments.seed, arguments.seed + min(8, arguments.seeds)):
            sums.append(_maintained(size, length, moves, limit, method, seed))
        spent, upkeep, count = np.mean(sums, axis=0)
        means.append((100 * min(limit, 2.0), float(spent), float(spent + upkeep)))
        print(
            f"    threshold {100 * limit:>5.0f} %: broadcast {spent:.3f} s, upkeep {upkeep:.3f} s a broadcast, "
            f"{count:.1f} calibrations",
            flush=True,
        )
    at = [each[0] for each in means]
    curves: dict[str, Curve] = {"broadcast": (at, [each[1] for each in means])}
    curves["with upkeep"] = (at, [each[2] for each in means])
    arguments.plots.lines("Fig. 6 (rightmost: never)", "threshold, %", "s a broadcast", curves)


def _maintained(size: int, length: int, moves: int, limit: float, method: str, seed: int) -> tuple[float, float, float]:
    """Return mean seconds of a broadcast and of upkeep, and calibrations, in one run of Algorithm 1."""
    generator = np.random.default_rng(seed)
    truth = traces.constant(size, generator)
    change_at = set(generator.choice(np.arange(20, length - 20), moves, replace=False).tolist())
    spent, upkeep, count, made, expected = 0.0, 0.0, 0, None, 0.0
    for number in range(length):
        if number in change_at:
            moved = generator.choice(size, 3, replace=False)
            fresh = traces.constant(size, generator)
            truth = truth.copy()
            truth[moved], truth[:, moved] = fresh[moved], fresh[:, moved]
        if made is None:
            values = traces.snapshots(truth, CALIBRATED, 0.06, generator)
            network = model(traces.history_of(values), method=method)
            made = plan(network, "broadcast", size_bytes=SIZE_BYTES, root="h0", algorithm="fnf")
            expected = made.predicted_s
            off = ~np.eye(size, dtype=bool)
            # A round lasts as long as its slowest pair; of N/2 pairs, about the 1 - 2/N quantile.
            slowest = np.quantile(values[:, off], 1 - 2 / size, axis=1)
            upkeep += float((SIZE_BYTES * slowest * 2 * size).sum()) if number else 0.0
            count += 1
        now = traces.history_of(traces.snapshots(truth, 1, 0.06, generator))
        took = float(replay(now, made)[0])
        spent += took
        if abs(took - expected) / expected >= limit:
            made = None
    return spent / length, upkeep / length, count


def trees(arguments: argparse.Namespace) -> None:
    """Print our trees next to FNF on the same network."""
    print(
        f"\nTrees on one network, {arguments.seeds} clouds, 8 MB from a random root; saved compared with FNF on the truth"
    )
    for size in (64, 196):
        times: dict[str, dict[str, list[float]]] = {}
        for seed in range(arguments.seed, arguments.seed + arguments.seeds):
            trace = spiky(size, 0.1, seed)
            root = f"h{np.random.default_rng(seed).integers(size)}"
            shapes = (
                ("binomial", None),
                ("fnf", None),
                ("ecef", None),
                ("look-ahead", None),
                ("search", 1),
                ("search", None),
            )
            kinds: tuple[Operation, ...] = ("broadcast", "scatter")
            for kind in kinds:
                for algorithm, segments in shapes:
                    made = plan(
                        trace.truth, kind, size_bytes=SIZE_BYTES, root=root, algorithm=algorithm, segments=segments
                    )
                    name = f"{algorithm}, whole" if algorithm == "search" and segments else algorithm
                    own = times.setdefault(kind, {})
                    own.setdefault(name, []).append(made.predicted_s)
                    own.setdefault(f"{name} later", []).append(float(replay(trace.later, made).mean()))
        for operation, rows in times.items():
            print(f"  N = {size}, {operation}: predicted s, % less than FNF; on later snapshots (Norm 0.1): s, % less")
            for name in [name for name in rows if not name.endswith(" later")]:
                now, later = np.array(rows[name]), np.array(rows[f"{name} later"])
                fnf, fnf_later = np.array(rows["fnf"]), np.array(rows["fnf later"])
                print(
                    f"    {name:<16} {now.mean():>9.4f} {saved(now, fnf):>14}   {later.mean():>9.4f} {saved(later, fnf_later):>14}",
                    flush=True,
                )
