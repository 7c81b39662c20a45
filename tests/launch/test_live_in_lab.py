"""A sequence carried out with MPI on lab hosts: an application moves to the better hosts that another leaves."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from tests import builders
from tests.shell import GAVOTTE, gavotte

from gavotte import lab
from gavotte.formats.app import write_app
from gavotte.formats.network import write_network

pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="Open MPI is not installed"),
]

CHECKPOINTED = Path(__file__).with_name("programs") / "checkpointed.py"
BYTES = 250_000
TOPOLOGY = builders.topology(
    [
        {"name": host, "switch": switch, "egress": rate, "ingress": rate, "cpus": 1.0}
        for host, switch, rate in (("a", "l", "80mbit"), ("b", "l", "80mbit"), ("c", "r", "8mbit"), ("d", "r", "8mbit"))
    ],
    switches=["core", "l", "r"],
)


def test_an_application_takes_the_better_hosts_when_another_leaves_them(tmp_path: Path) -> None:
    rates = [[80e6 if {m, n} <= {"a", "b"} else 8e6 for n in "abcd"] for m in "abcd"]
    write_network(tmp_path / "n.network.json", builders.network("abcd", rates, cpus=1.0))
    # The first one takes the fast pair for some three seconds, the second one would need half a minute on the slow one.
    # A slow start of mpirun costs some three seconds a task.
    times = {"first": 100, "second": 120}
    for number, (name, count) in enumerate(times.items()):
        ways = [("x", "y", count * BYTES), ("y", "x", count * BYTES)]
        write_app(tmp_path / f"{name}.app.toml", builders.app(name, *ways, arrival_s=0.5 * number))
    (tmp_path / "job").write_text(
        "#!/bin/sh\n"
        '[ "$GAVOTTE_START" != 1 ] || echo 0 > $GAVOTTE_PROGRESS\n'
        f'times=$([ "$1" = first ] && echo {times["first"]} || echo {times["second"]})\n'
        f"exec {GAVOTTE} lab exec a -- mpirun.openmpi --mca rmaps seq --hostfile $2 -n 2 --bind-to none "
        f"--mca btl tcp,self {sys.executable} {CHECKPOINTED} {tmp_path}/$1.step $times\n"
    )
    (tmp_path / "job").chmod(0o755)
    with lab.session(TOPOLOGY) as session:
        words = ["n.network.json", *(f"{name}.app.toml" for name in times), "--every", "2", "--migration-cost", "3"]
        words += ["--live", f"{tmp_path}/job {{app}} {{hostfile}}", "--json"]
        ran = gavotte("sequence", *words, cwd=tmp_path, env=session.environment(), timeout=200)
    assert ran.returncode == 0, ran.stderr
    first, second = json.loads(ran.stdout)["ran"]
    assert (first["app"], second["app"]) == ("first", "second")
    assert set(first["placements"][0].values()) == {"a", "b"}
    assert set(second["placements"][0].values()) == {"c", "d"}
    assert set(second["placements"][-1].values()) == {"a", "b"}
    log = (tmp_path / "gavotte-live" / "second.log").read_text()
    begins = [int(line.split()[1]) for line in log.splitlines() if line.startswith("from ")]
    assert begins[0] == 0
    assert 0 < begins[-1] < times["second"]
    assert (tmp_path / "second.step").read_text() == str(times["second"])
