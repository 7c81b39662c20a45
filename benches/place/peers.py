"""Partitioners as placers: the cut graph in, blocks out, blocks placed on hosts as well as possible for the peer.

They minimise the total cut, not the slowest link, and know blocks, not hosts. To compare them at their best:

1. Their blocks are placed on hosts in order (most bytes out on the fastest cap).
2. Two blocks are exchanged as long as that helps.
3. The best of five attempts with other seeds and imbalances counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benches.place.judge import Judge

PEERS = {"mtkahypar": "Mt-KaHyPar", "kahip": "KaHIP", "scotch": "Scotch", "metis": "METIS"}

IMBALANCES = (0.03, 0.1, 0.2, 0.3, 1e9)
"""Allowed weight of a peer's blocks above the mean, up to the hosts' capacity: one attempt each, as none suits all
graphs.
"""

_Hosts = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Answer:
    """A peer's answer to an instance.

    Attributes:
        seconds: completion time by the judge; None if it overbooks a host, or the peer failed.
        took_s: time of that attempt alone, without start and relabelling.
        peak_mb: largest resident size of its process.
        failed: whether the peer gave no answer.
        overbooked: hosts with more tasks than they have cores for.
    """

    seconds: float | None
    took_s: float
    peak_mb: float
    failed: bool
    overbooked: int


def ask(
    peer: str,
    judge: Judge,
    *,
    preset: str,
    imbalances: Sequence[float] = IMBALANCES,
    attempts: int = len(IMBALANCES),
    threads: int = 1,
    exchange: bool = True,
) -> Answer:
    """Return the best of some attempts of one peer, its blocks placed on hosts.

    Args:
        peer: one of `PEERS`.
        judge: of the instance.
        preset: of Mt-KaHyPar.
        imbalances: allowed weight above the mean, for one attempt each.
        attempts: each with its own seed and, except for Mt-KaHyPar, its own imbalance.
        threads: that Mt-KaHyPar uses.
        exchange: whether to try all exchanges of two blocks.
    """
    room = float(min(judge.have) * len(judge.have) / judge.need.sum() - 1)
    choices = [{"seed": at, "imbalance": min(imbalances[at % len(imbalances)], room)} for at in range(attempts)]
    best = Answer(None, 0.0, 0.0, True, 0)
    for reply in _replies(peer, judge, preset, threads, choices):
        at = _lay(judge, np.array(reply["blocks"], dtype=np.intp), exchange=exchange)
        used = np.bincount(at, weights=judge.need, minlength=len(judge.have))
        overbooked = int(np.count_nonzero(used > judge.have + 1e-9))
        answer = Answer(judge.seconds(at), float(reply["seconds"]), float(reply["peak_mb"]), False, overbooked)
        if best.failed or (answer.seconds is not None and (best.seconds is None or answer.seconds < best.seconds)):
            best = answer
    return best


def _replies(
    peer: str, judge: Judge, preset: str, threads: int, choices: Sequence[dict[str, float]]
) -> list[dict[str, Any]]:
    """Run attempts of one peer in a process of its own, and return what it printed of each."""
    request = _graph(judge) | {"peer": peer, "preset": preset, "threads": threads, "attempts": list(choices)}
    script = Path(__file__).with_name("peer_child.py")
    child = subprocess.run(
        [sys.executable, "-I", str(script)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return [json.loads(line) for line in child.stdout.split("\n") if line.startswith("{")]


def built_annealer(folder: Path) -> Path | None:
    """Build the annealer into a folder; None if there is no compiler."""
    target, source = folder / "annealer", Path(__file__).with_name("annealer.c")
    done = subprocess.run(["cc", "-O2", "-o", str(target), str(source), "-lm"], capture_output=True, check=False)
    return target if done.returncode == 0 else None


def anneal(program: Path, judge: Judge, limit_s: float, seed: int) -> float | None:
    """Return the seconds that a plain annealer on one thread reaches in this processor time, by the judge."""
    hosts = len(judge.have)
    rates: list[float] = []

    def link(rate_bps: float) -> list[int]:
        rates.append(rate_bps)
        return [len(rates) - 1] if np.isfinite(rate_bps) else []

    egress, ingress = [link(rate) for rate in judge.egress], [link(rate) for rate in judge.ingress]
    groups = [(inside, link(up or np.inf), link(down or np.inf)) for inside, up, down in judge.groups]
    links: list[list[int]] = []
    for m in range(hosts):
        for n in range(hosts):
            result = link(judge.pair[m, n]) if len(judge.pair) and m != n else []
            if judge.hose and not judge.mates[m, n]:
                result = [*result, *egress[m], *ingress[n]]
                for inside, up, down in groups:
                    result += up if inside[m] and not inside[n] else down if inside[n] and not inside[m] else []
            links.append(result)
    edges = list(zip(judge.source, judge.target, judge.bytes, strict=True))
    numbers = [seed, limit_s, len(judge.need), hosts, len(rates), len(edges), *judge.need, *judge.have]
    numbers += [rate if np.isfinite(rate) else 1e30 for rate in rates]
    numbers += [len(result) for result in links]
    numbers += [at for result in links for at in result]
    numbers += [value for edge in edges for value in edge]
    text = " ".join(f"{value:.17g}" for value in numbers)
    child = subprocess.run([program], input=text, capture_output=True, text=True, timeout=10 * limit_s + 60, check=True)
    return judge.seconds(np.array(child.stdout.split()[2:], dtype=np.intp))


def _graph(judge: Judge) -> dict[str, Any]:
    """Return the graph with whole weights: half cores, and bytes of both directions in 4096 parts of the most."""
    sums: Counter[tuple[int, int]] = Counter()
    for source, target, size in zip(judge.source, judge.target, judge.bytes, strict=True):
        sums[int(min(source, target)), int(max(source, target))] += int(size)
    most = max(sums.values(), default=1)
    return {
        "needs": [int(need) for need in np.rint(2 * judge.need)],
        "most": [int(have) for have in np.rint(2 * judge.have)],
        "blocks": len(judge.have),
        "edges": [(a, b, max(4096 * size // most, 1)) for (a, b), size in sorted(sums.items())],
    }


def _lay(judge: Judge, blocks: _Hosts, *, exchange: bool) -> _Hosts:
    """Place blocks on hosts: by rank of bytes and rate, then by exchanges that help."""
    count = len(judge.have)
    away = blocks[judge.source] != blocks[judge.target]
    sent = np.bincount(blocks[judge.source][away], weights=judge.bytes[away], minlength=count)
    heard = np.bincount(blocks[judge.target][away], weights=judge.bytes[away], minlength=count)
    if judge.hose:
        rate = np.minimum(judge.egress, judge.ingress)
    else:
        rate = np.where(np.isfinite(judge.pair), judge.pair, 0.0).sum(axis=1)
    host_of = np.empty(count, dtype=np.intp)
    host_of[np.argsort(-np.maximum(sent, heard), kind="stable")] = np.argsort(-rate, kind="stable")
    best = judge.seconds(host_of[blocks])
    while exchange and best is not None:
        helped = False
        for a in range(count):
            for b in range(a):
                host_of[[a, b]] = host_of[[b, a]]
                now = judge.seconds(host_of[blocks])
                if now is not None and now < best * (1 - 1e-12):
                    best, helped = now, True
                else:
                    host_of[[a, b]] = host_of[[b, a]]
        if not helped:
            break
    return np.asarray(host_of[blocks])
