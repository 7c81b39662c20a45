"""100 tasks on 50 hosts: the search after a second, compared with CP-SAT after thirty."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from benches.machine import machine
from benches.place.instances import CORES, tenants
from benches.place.judge import Judge

from gavotte.place import Effort, Question, build_instance, decide
from gavotte.place.columns import Instance
from gavotte.place.exact.compact import build
from gavotte.place.exact.cpsat import CHILD
from gavotte.place.exact.solver import Solver

TASKS, HOSTS = 100, 50
SEARCH_S, SOLVER_S = 1.0, 30.0


def main(arguments: Sequence[str]) -> None:
    """`middle [--count 6] [--seed 0] [--quick]`."""
    parser = argparse.ArgumentParser(prog="bench-place middle")
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two instances, CP-SAT for 5 s")
    options = parser.parse_args(arguments)
    count, solver_s = (2, 5.0) if options.quick else (options.count, SOLVER_S)
    print(machine())
    print(f"{count} instances of {TASKS} tasks on {HOSTS} hosts, seed {options.seed}")
    print(f"search: a limit of {SEARCH_S:g} s; CP-SAT: compact model, no start, 2 workers, {solver_s:g} s")
    heads = ("instance", "greedy s", "search s", "took", "CP-SAT s", "bound s", "took", "search/CP-SAT")
    print("{:>8} {:>9} {:>9} {:>6} {:>9} {:>9} {:>6} {:>14}".format(*heads))
    ratios = []
    for index in range(count):
        network, app = tenants(TASKS, HOSTS, CORES, np.random.default_rng([options.seed, index]))
        judge = Judge(network, app)
        greedy = judge.of(decide(Question(network, [app]), Effort("greedy")).placement.assignment)
        if greedy is None:
            raise SystemExit(f"instance {index}: greedy overbooks a host")
        start_s = time.perf_counter()
        answer = decide(Question(network, [app]), Effort("search", time_limit_s=SEARCH_S))
        took_s = time.perf_counter() - start_s
        searched = judge.of(answer.placement.assignment)
        if searched is None:
            raise SystemExit(f"instance {index}: the search overbooks a host")
        instance = build_instance(network, [app], network.sharing)
        start_s = time.perf_counter()
        hosts, bound_s = _solve(instance, greedy, solver_s)
        solver_took_s = time.perf_counter() - start_s
        solved = None if hosts is None else judge.seconds(hosts)
        ratio = searched / solved if solved else 0.0
        ratios.append(ratio)
        shown = "none" if solved is None else f"{solved:.3f}"
        print(
            f"{index:>8} {greedy:>9.3f} {searched:>9.3f} {took_s:>6.2f} {shown:>9} {bound_s:>9.3f} {solver_took_s:>6.1f} "
            f"{ratio:>14.4f}",
            flush=True,
        )
    print(f"search / CP-SAT: median {statistics.median(ratios):.4f}, worst {max(ratios):.4f} (goal 1.01)")


def _solve(instance: Instance, greedy_s: float, limit_s: float) -> tuple[npt.NDArray[np.intp] | None, float]:
    """Run CP-SAT alone on the compact model: hosts of the tasks, and its bound in seconds."""
    built = build(instance, cap_s=greedy_s, bound_s=0.0, hint=None)
    text = f"num_workers: 2 max_time_in_seconds: {limit_s}"
    with Solver(CHILD) as solver:
        answer = solver.ask({"model": built.model.text(), "parameters": text}, limit_s)
    bound_s = float(answer["bound"]) * built.tick_s
    if not answer["solution"]:
        return None, bound_s
    hosts = built.units_on(answer["solution"])
    return np.array([hosts[unit] for unit in instance.core.compact().unit_of], dtype=np.intp), bound_s
