"""Figures 12 and 13: 1024 hosts in 32 racks with background traffic, on our simulator (section V-E)."""

from __future__ import annotations

import argparse
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from benches.rpca import traces
from benches.rpca.replay import BASELINE, BEST, CALIBRATED, HEURISTIC, methods_to_run
from benches.rpca.stats import cdf, table

from gavotte.collective import TreeSearch, norm_of, plan
from gavotte.formats.collective import Operation, Stage
from gavotte.formats.history import Floats
from gavotte.formats.network import Network
from gavotte.formats.topology import FORMAT, Topology
from gavotte.mapping import map_tasks
from gavotte.model import model
from gavotte.simulate import Flows, simulate

RACKS, PER_RACK = 32, 32
SIZE_BYTES = 8_000_000
ROUND_S = 0.25
"""Time between rounds of a calibration: 8 MB take 0.064 s alone."""
WAIT_S = 7.5
"""Mean pause of the background in Fig. 13: the paper chose it such that Norm(N_E) is 0.1."""
MOST_PIECES = 64
SENDERS = 512
"""Pairs of hosts with background traffic."""


@cache
def topology() -> Topology:
    """The paper's cluster: 1 Gbit/s inside a rack, 10 Gbit/s between racks."""
    switches = [{"name": "core"}, *({"name": f"tor{r}", "parent": "core", "up": "10gbit"} for r in range(RACKS))]
    hosts = [{"name": f"h{i}", "switch": f"tor{i // PER_RACK}", "rate": "1gbit"} for i in range(RACKS * PER_RACK)]
    return Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts})


START_S = 10.0
"""Start of an operation: the background has then reached its usual load."""
WINDOW_S = 40.0
WINDOWS = 5
"""Times at which each operation is tried in each cluster, the same for all methods."""

Ints = npt.NDArray[np.int64]
Window = tuple[Ints, Ints, Floats]
"""Source, target and start of each message of others."""


class Cluster:
    """Background traffic of one seed: its pairs stay, its times are drawn again in each window."""

    def __init__(self, size_bytes: float, wait_s: float, virtual: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        everybody = RACKS * PER_RACK
        ends = generator.permutation(everybody)
        self.pairs = np.stack([ends[:SENDERS], generator.permutation(ends)[:SENDERS]], axis=1)
        self.pairs = self.pairs[self.pairs[:, 0] != self.pairs[:, 1]]
        self.hosts = generator.choice(everybody, virtual, replace=False)
        self.size_bytes, self.wait_s = size_bytes, wait_s
        self.generator = generator

    def background(self, seconds: float) -> Window:
        """Return source, target and start of messages; a pair's next waits for its last to end, as if alone."""
        alone_s = self.size_bytes * 8 / 1e9
        rows = []
        for source, target in self.pairs:
            clock = float(self.generator.exponential(self.wait_s))
            while clock < seconds:
                rows.append((source, target, clock))
                clock += alone_s + float(self.generator.poisson(self.wait_s))
        columns = np.array(rows, dtype=np.float64).reshape(-1, 3)
        return columns[:, 0].astype(np.int64), columns[:, 1].astype(np.int64), columns[:, 2]

    def run(
        self, source: Ints, target: Ints, sizes: Floats, start_s: Floats, edges: list[list[int]], others: Window
    ) -> Floats:
        """Return finish times of own flows between members, by their index in the virtual cluster."""
        flows = Flows(
            source=np.concatenate([self.hosts[source], others[0]]),
            target=np.concatenate([self.hosts[target], others[1]]),
            bytes=np.concatenate([sizes, np.full(len(others[0]), int(self.size_bytes))]),
            start_s=np.concatenate([start_s, others[2]]),
        )
        done = simulate(topology(), flows, edges=np.array(edges) if edges else None)
        return done.finish_s[: len(source)]

    def calibrate(self, count: int) -> Floats:
        """Return (n, N, N) seconds a byte: in each round disjoint pairs send 8 MB, all pairs in 2 (N - 1) rounds."""
        size = len(self.hosts)
        ring = [self._round(size, number) for number in range(size - 1)]
        pairs = np.concatenate([half for each in ring for half in (each, each[:, ::-1])])
        rounds = np.repeat(np.arange(2 * (size - 1)), size // 2)
        result = np.full((count, size, size), np.nan)
        for snapshot in range(count):
            start_s: Floats = np.asarray(5.0 + ROUND_S * rounds, dtype=np.float64)
            sizes = np.full(len(pairs), SIZE_BYTES)
            others = self.background(float(start_s[-1]) + 1)
            finish_s = self.run(pairs[:, 0], pairs[:, 1], sizes, start_s, [], others)
            result[snapshot, pairs[:, 0], pairs[:, 1]] = (finish_s - start_s) / SIZE_BYTES
        return result

    @staticmethod
    def _round(size: int, number: int) -> Ints:
        """Return a round robin by the circle method: N - 1 rounds of N / 2 disjoint pairs."""
        rest = [(number + step) % (size - 1) for step in range(size - 1)]
        circle = [size - 1, *rest]
        return np.array([[circle[i], circle[size - 1 - i]] for i in range(size // 2)])

    def collective_s(self, stage: Stage, others: Window) -> float:
        """Simulate one operation along a tree, piece by piece, one message at a time from each host."""
        size = np.ones(len(stage.parent))
        for rank in reversed(stage.order[1:]):
            size[stage.parent[rank]] += size[rank]
        blocks = size if stage.operation == "scatter" else np.ones(len(size))
        number = {
            (piece, rank): piece * (len(size) - 1) + place
            for piece in range(stage.segments)
            for place, rank in enumerate(stage.order[1:])
        }
        edges = []
        for rank, below in enumerate(stage.children):
            sends = [(piece, child) for piece in range(stage.segments) for child in below]
            edges += [[number[one], number[next_one]] for one, next_one in pairwise(sends)]
            if rank != stage.root:
                edges += [[number[piece, rank], number[piece, child]] for piece, child in sends]
        target = np.array(stage.order[1:] * stage.segments)
        sizes = np.maximum(1, stage.bytes // stage.segments * blocks[target])
        start_s = np.full(len(target), START_S)
        return float(self.run(np.array(stage.parent)[target], target, sizes, start_s, edges, others).max() - START_S)

    def mapping_s(self, messages: Ints, hosts: list[int], others: Window) -> float:
        """Simulate all messages of a task graph, those of one host one after the other."""
        at = np.array(hosts)
        source, target = at[messages[:, 0]], at[messages[:, 1]]
        last: dict[int, int] = {}
        edges = []
        for number, each in enumerate(source.tolist()):
            if each in last:
                edges.append([last[each], number])
            last[each] = number
        start_s = np.full(len(source), START_S)
        return float(
            self.run(source, target, messages[:, 2].astype(np.float64), start_s, edges, others).max() - START_S
        )


def figures(arguments: argparse.Namespace) -> None:
    """Print figures 12 and 13."""
    virtual = 16 if arguments.quick else 64
    print(
        "Fig. 12: Norm(N_E) (tolerance 10 %) by background traffic, 3 snapshots; paper: falls with lambda, grows with size"
    )
    for label, settings in (
        ("100 MB, lambda", [(100e6, wait) for wait in (1.0, 5.0, 10.0, 30.0)]),
        ("lambda 5 s, size", [(size, 5.0) for size in (10e6, 50e6, 100e6, 500e6)]),
    ):
        norm_texts: list[str] = []
        met: list[tuple[float, float]] = []
        for size_bytes, wait_s in settings:
            norm = norm_of(Cluster(size_bytes, wait_s, virtual, arguments.seed).calibrate(3))
            what = f"{wait_s:g} s" if "lambda" in label[-6:] else f"{size_bytes / 1e6:g} MB"
            norm_texts.append(f"{what} {norm:.3f}")
            met.append((wait_s if "lambda" in label[-6:] else size_bytes / 1e6, norm))
        print(f"    {label}: " + ", ".join(norm_texts), flush=True)
        curve = {label: ([x for x, _ in met], [y for _, y in met])}
        arguments.plots.lines("Fig. 12", "s" if "lambda" in label[-6:] else "MB", "Norm(N_E)", curve)
    names = methods_to_run(arguments.methods)
    times: dict[str, dict[str, list[float]]] = {}
    norms = []
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        cluster = Cluster(100e6, WAIT_S, virtual, seed)
        measured = cluster.calibrate(3 if arguments.quick else CALIBRATED)
        norms.append(norm_of(measured))
        history = traces.history_of(np.where(np.eye(virtual, dtype=bool), 1.0, measured))
        believed = {name: model(history, method=name) for name in names}
        for kind, rows in _judged(cluster, believed, seed).items():
            for name, seconds in rows.items():
                times.setdefault(kind, {}).setdefault(name, []).append(seconds)
    print(
        f"\nFig. 13: {virtual} of 1024 hosts, background 100 MB, lambda {WAIT_S:g} s, {SENDERS} pairs, Norm(N_E) {np.mean(norms):.3f}, "
        f"{arguments.seeds} clusters; 8 MB, of a scatter to each\n  paper, Norm 0.1: 25 to 40 % over baseline and topology-aware, 10 to 15 % over heuristics"
    )
    for kind, rows_of in times.items():
        arrays = {name: np.array(seconds) for name, seconds in rows_of.items()}
        print(f"  {kind}\n{table(arrays, BASELINE, HEURISTIC)}")
        if kind == "broadcast":
            shown = [name for name in (BASELINE, "topology-aware", HEURISTIC, "rpca", "ours") if name in arrays]
            print(cdf(arrays, BASELINE, shown))
            arguments.plots.cdf("Fig. 13b: broadcast, simulated", arrays, BASELINE, shown)


def _judged(cluster: Cluster, believed: dict[str, Network], seed: int) -> dict[str, dict[str, float]]:
    """Return mean seconds by operation and method, all in the same windows."""
    windows = [cluster.background(WINDOW_S) for _ in range(WINDOWS)]
    size = len(cluster.hosts)
    rack = cluster.hosts // PER_RACK
    nominal = traces.network_of(np.where(rack[:, None] == rack[None, :], 1.0, 1.05) * 8e-9)
    root = f"h{np.random.default_rng(seed).integers(size)}"
    ours = believed[BEST]
    values: dict[str, dict[str, float]] = {}
    kinds: tuple[Operation, ...] = ("broadcast", "scatter")
    for operation in kinds:
        wanted = {BASELINE: (ours, "binomial", 1), "topology-aware": (nominal, "fnf", 1)}
        wanted |= {name: (network, "fnf", 1) for name, network in believed.items()}
        wanted |= {"ours, whole": (ours, "search", 1), "ours": (ours, "search", MOST_PIECES)}
        values[operation] = {}
        for name, (network, algorithm, segments) in wanted.items():
            stage = plan(
                network,
                operation,
                size_bytes=SIZE_BYTES,
                root=root,
                algorithm=algorithm,
                segments=segments,
                search=TreeSearch(steps=20_000),
            ).stages[0]
            values[operation][name] = float(np.mean([cluster.collective_s(stage, others) for others in windows]))
    app = traces.task_graph(size, np.random.default_rng(seed))
    names = [task.name for task in app.task]
    messages = np.array([[names.index(t.source), names.index(t.target), t.bytes] for t in app.transfer])
    wanted_maps = {BASELINE: (ours, "ring"), "topology-aware": (nominal, "greedy")}
    wanted_maps |= {name: (network, "greedy") for name, network in believed.items()} | {"ours": (ours, "exchange")}
    values["mapping"] = {}
    for name, (network, method) in wanted_maps.items():
        placed = map_tasks(network, app, method)
        hosts = [int(host[1:]) for host in placed.assignment.values()]
        values["mapping"][name] = float(np.mean([cluster.mapping_s(messages, hosts, each) for each in windows]))
    return values
