"""Runs one partitioner on one graph in its own process: JSON on stdin, a line of JSON with blocks for each attempt.

Run it as a script, by path. A partitioner that crashes loses only its own further attempts. Weights are whole numbers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def mtkahypar(graph: dict[str, Any]) -> list[int]:
    """Mt-KaHyPar: total cut, with a hard weight for each block."""
    import mtkahypar as peer

    begin = peer.initialize(graph["threads"])
    context = begin.context_from_preset(getattr(peer.PresetType, graph["preset"]))
    context.set_partitioning_parameters(graph["blocks"], 0.03, peer.Objective.CUT)
    context.set_individual_target_block_weights(graph["most"])
    context.logging = False
    peer.set_seed(graph["seed"])
    edges = [(a, b) for a, b, _ in graph["edges"]]
    weights = [weight for _, _, weight in graph["edges"]]
    built = begin.create_graph(context, len(graph["needs"]), len(edges), edges, graph["needs"], weights)
    done = built.partition(context)
    return [int(done.block_id(node)) for node in range(len(graph["needs"]))]


def kahip(graph: dict[str, Any]) -> list[int]:
    """KaHIP's kaffpa, STRONG without a preset: total cut, one imbalance for all blocks."""
    import kahip as peer

    starts, ends, weights = _rows(graph)
    mode = {"FAST": 0, "ECO": 1}.get(graph["preset"], 2)
    _, blocks = peer.kaffpa(
        graph["needs"], starts, weights, ends, graph["blocks"], graph["imbalance"], True, graph["seed"], mode
    )
    return list(map(int, blocks))


def metis(graph: dict[str, Any]) -> list[int]:
    """METIS, recursive bisection: its k-way method overbooks blocks this small."""
    import pymetis as peer

    starts, ends, weights = _rows(graph)
    options = peer.Options(ufactor=max(int(1000 * graph["imbalance"]), 1), seed=graph["seed"])
    result = peer.part_graph(
        graph["blocks"],
        xadj=starts,
        adjncy=ends,
        vweights=graph["needs"],
        eweights=weights,
        recursive=True,
        options=options,
    )
    return list(map(int, result[1]))


def scotch(graph: dict[str, Any]) -> list[int]:
    """Scotch's gmap onto a complete graph weighted by host size."""
    starts, ends, weights = _rows(graph)
    count = len(graph["needs"])
    rows = [f"0\n{count} {len(ends)}\n0 011"]
    for node in range(count):
        near = " ".join(f"{weights[at]} {ends[at]}" for at in range(starts[node], starts[node + 1]))
        rows.append(f"{graph['needs'][node]} {starts[node + 1] - starts[node]} {near}".rstrip())
    with tempfile.TemporaryDirectory() as folder:
        source, target, out = (Path(folder) / name for name in ("a.grf", "a.tgt", "a.map"))
        source.write_text("\n".join(rows) + "\n")
        target.write_text(f"cmpltw {graph['blocks']} {' '.join(map(str, graph['most']))}\n")
        imbalance = f"-b{min(graph['imbalance'], 0.99):.3f}"
        command = ["scotch_gmap", imbalance, str(source), str(target), str(out)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        lines = out.read_text().split("\n")[1:]
        rows_of = [line.split() for line in lines if line.strip()]
        values = {int(node): int(block) for node, block in rows_of}
    return [values[node] for node in range(count)]


def _rows(graph: dict[str, Any]) -> tuple[list[int], list[int], list[int]]:
    """Compressed rows of the undirected graph."""
    near: list[list[tuple[int, int]]] = [[] for _ in graph["needs"]]
    for a, b, weight in graph["edges"]:
        near[a].append((b, weight))
        near[b].append((a, weight))
    starts = [0]
    for row in near:
        starts.append(starts[-1] + len(row))
    return starts, [b for row in near for b, _ in row], [weight for row in near for _, weight in row]


def resident_mb(process: str) -> float:
    """Return the largest resident size of a process so far; 0 = it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    attempt = {"mtkahypar": mtkahypar, "kahip": kahip, "metis": metis, "scotch": scotch}[asked["peer"]]
    for choice in asked["attempts"]:
        start_s, used_s = time.perf_counter(), sum(os.times()[:4])
        answer = {
            "blocks": attempt(asked | choice),
            "seconds": time.perf_counter() - start_s,
            "cpu_s": sum(os.times()[:4]) - used_s,
            "peak_mb": resident_mb("self"),
        }
        sys.stdout.write("\n" + json.dumps(answer) + "\n")
        sys.stdout.flush()
