"""Real broadcasts, observed or under the preloaded library, show that a shaper has changed; no other bytes are sent."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from benches.mpi import available, compiler, launch
from tests import builders
from typer.testing import CliRunner

from gavotte import lab
from gavotte.cli.verbs import app
from gavotte.collective import build_shim, plan, shim_text
from gavotte.formats.collective import write_collective
from gavotte.formats.network import write_network
from gavotte.formats.record import read_records

NAMES = [f"h{i}" for i in range(6)]
RATE, SLOW = 100, 20
"""Mbit/s."""
BEFORE, AFTER = 16, 12
CLOUD = builders.topology([{"name": name, "rate": f"{RATE}mbit"} for name in NAMES])


@pytest.mark.rare
@pytest.mark.lab
@pytest.mark.skipif(not available("openmpi"), reason="no Open MPI")
@pytest.mark.parametrize("unchanged", [False, True])
def test_a_shaper_that_changes_is_found_by_broadcasts_alone(tmp_path: Path, unchanged: bool) -> None:
    believed, tree, times = tmp_path / "n.json", tmp_path / "b.tree.json", tmp_path / "times.jsonl"
    network = builders.network(NAMES, RATE * 1e6, 1e-4)
    write_network(believed, network)
    collective = plan(network, "broadcast", size_bytes=400_000, root="h0", algorithm="binomial")
    write_collective(tree, collective)
    program: list[str | Path] = [Path(__file__).with_name("broadcasts.py"), tree, times, "400000"]
    environment: dict[str, str] = {}
    if unchanged:
        library, trees = tmp_path / "libgavotte-mpi.so", tmp_path / "trees.txt"
        build_shim(library, mpicc=compiler("openmpi"))
        trees.write_text(shim_text([collective]))
        program = [Path(__file__).with_name("unchanged.py"), "400000"]
        environment = {"LD_PRELOAD": str(library), "GAVOTTE_TREES": str(trees), "GAVOTTE_OBSERVATIONS": str(times)}
    with lab.session(CLOUD, agents=False) as session:
        for count in (BEFORE, AFTER):
            ran = launch(
                session,
                "openmpi",
                [*program, str(count)],
                ranks=NAMES,
                scratch=tmp_path,
                environment=environment,
                timeout_s=60,
            )
            assert ran.returncode == 0, ran.stderr
            # In the binomial tree, h4 sends to h5 alone: one edge gets slower.
            device = session.run("h4", ["ip", "-o", "route"], capture_output=True, text=True).stdout.split("dev ")[1]
            shaper = ["tc", "qdisc", "replace", "dev", device.split()[0], "root"]
            slow = [*shaper, "tbf", "rate", f"{SLOW}mbit", "burst", "32kb", "latency", "50ms"]
            assert session.run("h4", slow).returncode == 0
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    records = read_records(times)
    # An operation whose marks were all early has no line.
    operations = len({(record.labels["run"], record.labels["operation"]) for record in records})
    assert BEFORE + AFTER - 4 <= operations <= BEFORE + AFTER
    for record in records:
        took[str(record.labels["source"]), str(record.labels["target"])].append(record.value)
    stage = collective.stages[0]
    edges = {(NAMES[stage.parent[rank]], NAMES[rank]) for rank in range(6) if rank != stage.root}
    assert ("h4", "h5") in edges
    assert set(took) == edges
    words = ["watch", str(believed), "--observations", str(times), "--count", str(operations), "--json"]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    events = [json.loads(line) for line in run.stdout.splitlines()]
    moves = [move for event in events if event["tick"] > BEFORE for move in event["moves"]]
    matches = [move for move in moves if (move["source"], move["target"]) == ("h4", "h5")]
    assert matches
    assert matches[-1]["after_s"] / matches[0]["before_s"] > 2
