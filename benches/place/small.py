"""At least 200 seeded instances of Choreo's size: ours next to greedy, the baselines and four partitioners."""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benches.machine import machine
from benches.place.instances import Case, cases
from benches.place.judge import Judge
from benches.place.peers import IMBALANCES, PEERS, answers, best

from gavotte.errors import InfeasibleError
from gavotte.place import Effort, Question, decide

LIMITS_S = (2.0, 20.0)
BASELINES = ("greedy", "random", "round-robin", "min-machines")


@dataclass
class Row:
    """Results of one method on all instances. Missing times are None."""

    seconds: list[float | None] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Exact:
    """A proof on one instance: elapsed seconds until it was complete; inf if there is none."""

    proven_s: float
    above_greedy: bool


def main(arguments: Sequence[str]) -> None:
    """`small [--count 240] [--seed 0] [--quick] [--no-peers]`."""
    parser = argparse.ArgumentParser(prog="bench-place small")
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="24 instances, no 20 s proofs")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args(arguments)
    count = 24 if options.quick else options.count
    peers = {} if options.no_peers else PEERS
    rows = {name: Row() for name in ("optimal", "search", *BASELINES, *peers)}
    proofs: list[Exact] = []
    families: list[str] = []
    print(machine())
    print(f"{count} instances, seed {options.seed}, one after the other, methods interleaved", flush=True)
    loads: list[float] = []
    left_out = 0
    try:
        for case in cases(2 * count, options.seed):
            if len(proofs) == count:
                break
            proof = _ours(case, rows, LIMITS_S[:1] if options.quick else LIMITS_S)
            for peer in peers:
                _peer(peer, Judge(case.network, case.app), rows[peer])
            if all(row.seconds[-1] is None for row in rows.values()):
                # Drawn so full that no placement exists: ours proves it, and names a conflict.
                for row in rows.values():
                    row.seconds.pop()
                    row.took_s.pop()
                left_out += 1
                continue
            proofs.append(proof)
            families.append(f"{case.family} {case.network.sharing}")
            loads.append(os.getloadavg()[0])
            if len(proofs) % 20 == 0:
                print(f"{len(proofs)} done, load {loads[-1]:.1f}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"interrupted after {len(proofs)} of {count} instances")
    if proofs:
        print(f"drawn without any placement, and left out: {left_out}")
        print(f"load: median {statistics.median(loads):.1f}, most {max(loads):.1f}")
        whole = {name: Row(row.seconds[: len(proofs)], row.took_s[: len(proofs)]) for name, row in rows.items()}
        _report(whole, proofs, families)


def _ours(case: Case, rows: dict[str, Row], limits_s: Sequence[float]) -> Exact:
    judge = Judge(case.network, case.app)
    for method in ("search", *BASELINES):
        _place(case, judge, method, rows[method], limit_s=1.0)
    proven_s, spent = math.inf, Row()
    for limit_s in limits_s:
        start_s = time.perf_counter()
        optimal = _place(case, judge, "optimal", spent, limit_s=limit_s)
        if optimal:
            proven_s = time.perf_counter() - start_s
            break
    rows["optimal"].seconds.append(min((each for each in spent.seconds if each is not None), default=None))
    rows["optimal"].took_s.append(spent.took_s[-1])
    greedy, ours = rows["greedy"].seconds[-1], rows["optimal"].seconds[-1]
    return Exact(proven_s, ours is None or (greedy is not None and ours > greedy * (1 + 1e-9)))


def _place(case: Case, judge: Judge, method: str, row: Row, *, limit_s: float) -> bool:
    """Time and judge one answer of ours; report whether it claims to be proven."""
    start_s = time.perf_counter()
    try:
        answer = decide(Question(case.network, [case.app]), Effort(method, time_limit_s=limit_s))
    except InfeasibleError:
        row.seconds.append(None)
        row.took_s.append(time.perf_counter() - start_s)
        return False
    row.took_s.append(time.perf_counter() - start_s)
    judged = judge.of(answer.placement.assignment)
    row.seconds.append(judged)
    claimed_s = answer.placement.completion_s
    if judged is None or not math.isclose(judged, claimed_s, rel_tol=1e-9, abs_tol=1e-12):
        raise SystemExit(f"{case.name}: {method} says {claimed_s} s, the judge says {judged}")
    return answer.placement.optimal


def _peer(peer: str, judge: Judge, row: Row) -> None:
    answer = best(answers(peer, judge, preset="HIGHEST_QUALITY"))
    row.seconds.append(answer.seconds)
    row.took_s.append(answer.took_s)


def _report(rows: dict[str, Row], proofs: Sequence[Exact], families: Sequence[str]) -> None:
    count = len(proofs)
    best = [min(value for row in rows.values() if (value := row.seconds[at]) is not None) for at in range(count)]
    print("\ngap to the best known; an answer that overbooks a host, or none, is infeasible and loses")
    heads = ("method", "feasible", "median gap", "mean", "p90", "is best", "median s", "p90 s")
    print("{:<14} {:>9} {:>10} {:>8} {:>8} {:>8} {:>9} {:>8}".format(*heads))
    for name, row in rows.items():
        gaps = sorted(_gap(value, least) for value, least in zip(row.seconds, best, strict=True))
        known = [gap for gap in gaps if math.isfinite(gap)]
        mean = statistics.fmean(known) if known else math.inf
        took = sorted(row.took_s)
        shown = (
            f"{PEERS.get(name, name):<14} {len(known):>4}/{count:<4} {_percent(statistics.median(gaps)):>10} "
            f"{_percent(mean):>8} {_percent(gaps[int(0.9 * (count - 1))]):>8} "
            f"{sum(gap < 1e-6 for gap in gaps) / count:>8.0%} {statistics.median(took):>9.3f} "
            f"{took[int(0.9 * (count - 1))]:>8.3f}"
        )
        print(shown)
    print(
        f"(mean: of feasible answers; peers: blocks placed on hosts for the least time, best of {len(IMBALANCES)} attempts)"
    )
    _proofs(rows, proofs, families)


def _proofs(rows: dict[str, Row], proofs: Sequence[Exact], families: Sequence[str]) -> None:
    count = len(proofs)
    for limit_s, goal in zip(LIMITS_S, (0.85, 0.97), strict=True):
        within = sum(proof.proven_s <= limit_s for proof in proofs) / count
        print(f"proven within {limit_s:g} s by the clock: {within:.1%} (goal {goal:.0%})")
    for family in sorted(set(families)):
        mine = [proof.proven_s for proof, name in zip(proofs, families, strict=True) if name == family]
        finite = [each for each in mine if math.isfinite(each)]
        counts = ", ".join(f"{sum(each <= limit_s for each in mine)} in {limit_s:g} s" for limit_s in LIMITS_S)
        print(f"  {family:<13} {len(mine)}: {counts}; median {statistics.median(finite or [math.inf]):.2f} s")
    print(f"infeasible: {sum(value is None for value in rows['optimal'].seconds)} (goal 0)")
    print(f"above greedy: {sum(proof.above_greedy for proof in proofs)} (goal 0)")
    for baseline in BASELINES:
        pairs = zip(rows["optimal"].seconds, rows[baseline].seconds, strict=True)
        saved = sorted(1 - ours / theirs for ours, theirs in pairs if ours is not None and theirs)
        print(
            f"time saved over {baseline}: median {statistics.median(saved):.0%}, least {saved[0]:.0%}, most "
            f"{saved[-1]:.0%} ({len(saved)} where it finds a placement that takes time)"
        )


def _gap(value: float | None, least: float) -> float:
    if value is None:
        return math.inf
    if least == 0.0:
        return 0.0 if value == 0.0 else math.inf
    return value / least - 1


def _percent(share: float) -> str:
    return f"{share:.1%}" if math.isfinite(share) else "none"
