"""Partitioners as placers: the cut graph in, blocks out, blocks placed on hosts as well as possible for the peer.

They minimise the total cut, not the slowest link, and know blocks, not hosts. To compare them at their best:

1. Their blocks are placed on hosts in order (most bytes out on the fastest cap).
2. What overbooks a host moves to the hosts with room that it sends most to.
3. Two blocks are exchanged as long as that helps.
4. The best of five attempts with other seeds and imbalances counts.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter, defaultdict
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

PRESETS = {
    "metis": ("",),
    "kahip": ("FAST", "ECO", "STRONG"),
    "mtkahypar": ("DEFAULT", "QUALITY", "HIGHEST_QUALITY", "DETERMINISTIC", "DETERMINISTIC_QUALITY", "LARGE_K"),
}
"""All presets of each partitioner for whole graphs."""

MOST_S = 600.0
"""Longest that all attempts of one preset may take."""

_Hosts = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Answer:
    """A peer's answer to an instance.

    Attributes:
        seconds: completion time by the judge; None if it overbooks a host after all, or the peer failed.
        took_s: time of that attempt alone, without start and relabelling.
        cpu_s: its processor time.
        peak_mb: largest resident size of its process.
        failed: whether the peer gave no answer.
        overbooked: hosts with more tasks than they have cores for, before those moved.
    """

    seconds: float | None
    took_s: float
    cpu_s: float
    peak_mb: float
    failed: bool
    overbooked: int


def best(known: Sequence[Answer]) -> Answer:
    """Return the fastest of some answers; one that failed if there is none."""
    none = Answer(None, 0.0, 0.0, 0.0, True, 0)
    return min(known, key=lambda answer: math.inf if answer.seconds is None else answer.seconds, default=none)


def answers(
    peer: str,
    judge: Judge,
    *,
    preset: str,
    imbalances: Sequence[float] = IMBALANCES,
    attempts: int = len(IMBALANCES),
    threads: int = 1,
    exchange: bool = True,
    most_s: float = MOST_S,
) -> list[Answer]:
    """Return the attempts of one peer that ended, its blocks placed on hosts.

    Args:
        peer: one of `PEERS`.
        judge: of the instance.
        preset: one of `PRESETS`.
        imbalances: allowed weight above the mean, for one attempt each.
        attempts: each with its own seed and, except for Mt-KaHyPar, its own imbalance.
        threads: that Mt-KaHyPar uses.
        exchange: whether to try all exchanges of two blocks.
        most_s: longest that all attempts may take.
    """
    room = float(min(judge.have) * len(judge.have) / judge.need.sum() - 1)
    choices = [{"seed": at, "imbalance": min(imbalances[at % len(imbalances)], room)} for at in range(attempts)]
    request = _graph(judge) | {"peer": peer, "preset": preset, "threads": threads, "attempts": choices}
    known = []
    for reply in _replies(request, most_s):
        blocks, overbooked = np.array(reply["blocks"], dtype=np.intp), 0
        host_of = _ranked(judge, blocks)
        at = host_of[blocks]
        if judge.seconds(at) is None:
            at, overbooked = _with_room(judge, at)
            blocks = np.argsort(host_of)[at]
        if exchange:
            at = _exchanged(judge, blocks, host_of)
        took_s, cpu_s, peak_mb = (float(reply[key]) for key in ("seconds", "cpu_s", "peak_mb"))
        known.append(Answer(judge.seconds(at), took_s, cpu_s, peak_mb, failed=False, overbooked=overbooked))
    return known


def _replies(request: dict[str, Any], most_s: float) -> list[dict[str, Any]]:
    """Run attempts of one peer in a process of its own, and return what it printed of each that ended in time."""
    script = Path(__file__).with_name("peer_child.py")
    child = subprocess.Popen(
        [sys.executable, "-I", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        printed = child.communicate(json.dumps(request), timeout=most_s)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        printed = child.communicate()[0]
    return [json.loads(line) for line in printed.split("\n") if line.startswith("{") and line.endswith("}")]


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


def _ranked(judge: Judge, blocks: _Hosts) -> _Hosts:
    """Return the host of each block: the one that sends or receives most bytes has the fastest."""
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
    return host_of


def _with_room(judge: Judge, at: _Hosts) -> tuple[_Hosts, int]:
    """Move tasks from overbooked hosts to others with room: first those that send least to their own host.

    Each goes to the host with room that it sends most to, or else to the one with most room.

    Returns:
        Host of each task, and the number of hosts that were overbooked.
    """
    at = at.copy()
    left = judge.have - np.bincount(at, weights=judge.need, minlength=len(judge.have))
    full = np.flatnonzero(left < -1e-9)
    moving = np.flatnonzero(np.isin(at, full))
    near: dict[int, list[tuple[int, float]]] = {int(task): [] for task in moving}
    for source, target, size in zip(judge.source.tolist(), judge.target.tolist(), judge.bytes.tolist(), strict=True):
        for task, other in ((source, target), (target, source)):
            if task in near:
                near[task].append((other, size))

    def shared(task: int) -> dict[int, float]:
        sums: defaultdict[int, float] = defaultdict(float)
        for other, size in near[task]:
            sums[int(at[other])] += size
        return sums

    for host in full.tolist():
        for task in sorted(np.flatnonzero(at == host).tolist(), key=lambda task: shared(task).get(host, 0.0)):
            if left[host] >= -1e-9:
                break
            need, sent = judge.need[task], shared(task)
            liked = sorted(sent, key=lambda to: -sent[to])
            chosen = next((to for to in liked if left[to] >= need - 1e-9), int(np.argmax(left)))
            if left[chosen] < need - 1e-9:
                continue
            at[task] = chosen
            left[[host, chosen]] += need, -need
    return at, len(full)


def _exchanged(judge: Judge, blocks: _Hosts, host_of: _Hosts) -> _Hosts:
    """Return the host of each task after all exchanges of two blocks that help."""
    best = judge.seconds(host_of[blocks])
    while best is not None:
        helped = False
        for a in range(len(host_of)):
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
