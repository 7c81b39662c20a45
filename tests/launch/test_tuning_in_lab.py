"""Launches set the MPI library's own algorithms where the replay of the job predicts that it pays."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.building import Builds
from tests.shell import GAVOTTE, gavotte

from gavotte import lab
from gavotte.formats.network import write_network

pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpicc.openmpi") is None, reason="Open MPI is not installed"),
]

RACKS = builders.topology(
    [
        {"name": host, "switch": rack, "egress": "200mbit"}
        for host, rack in zip("abcd", ("l", "l", "r", "r"), strict=True)
    ],
    switches=["core", {"name": "l", "up": "40mbit"}, {"name": "r", "up": "40mbit"}],
)
BYTES, TIMES = 900_000, 10
LINE = ["mpirun.openmpi", "-N", "1", "-n", "4", "--mca", "btl", "tcp,self"]


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    with lab.session(RACKS) as session:
        yield session


def _compile(line: list[str], path: Path) -> None:
    subprocess.run([*line, path], check=True, timeout=100)


def test_a_job_of_broadcasts(session: lab.Session, builds: Builds, tmp_path: Path) -> None:
    source = Path(__file__).parent / "programs" / "spread.c"
    program = builds.once("spread-openmpi", partial(_compile, ["mpicc.openmpi", "-O2", str(source), "-o"]))
    groups = [
        {"name": name, "members": list(members), "up_bps": 38e6, "down_bps": 38e6}
        for name, members in (("l", "ab"), ("r", "cd"))
    ]
    rates = [[None if m == n else 190e6 if m // 2 == n // 2 else 38e6 for n in range(4)] for m in range(4)]
    network = builders.network("abcd", rates, egress_bps=190e6, ingress_bps=190e6, groups=groups, sharing="groups")
    write_network(tmp_path / "n.network.json", network)
    environment = {**session.environment(), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}

    def run(*options: object, **more: str) -> tuple[dict[str, Any], list[str], str]:
        """Return the result, how many variables each rank found set, and stderr."""
        own = ["launch", "--hosts", "lab", "--store", tmp_path / "store", "--network", tmp_path / "n.network.json"]
        own += ["--json", tmp_path / "run.json", *options]
        ran = gavotte(
            *map(str, own),
            "--",
            *LINE,
            program,
            str(BYTES),
            str(TIMES),
            cwd=tmp_path,
            env={**environment, **more},
            timeout=200,
        )
        assert ran.returncode == 0, ran.stderr
        document: dict[str, Any] = json.loads((tmp_path / "run.json").read_text())
        return document, [line.split()[2] for line in ran.stdout.splitlines()], ran.stderr

    first, variables_set, _ = run()
    assert first["profiled"]
    assert (first["settings"], first["tuning"], variables_set) == ("", None, ["0"] * 4)

    # By default the root sends to each other host, two of which are behind the same uplink.
    tuned, variables_set, stderr = run("--explain")
    assert variables_set == ["2"] * 4
    assert tuned["tuning"]["used"]
    assert tuned["tuning"]["set_predicted_s"] < 0.8 * tuned["tuning"]["default_predicted_s"]
    assert "collectives: the MPI library is set for bcast" in stderr
    assert re.search(r"bcast of .* on 4 ranks: .* instead of .* by linear", stderr)
    assert tuned["predicted_s"] < tuned["default_predicted_s"]

    off, variables_set, _ = run("--explain", GAVOTTE_TUNE="off")
    assert (off["settings"], off["tuning"], variables_set) == ("", None, ["0"] * 4)

    # Settings of the user stay alone.
    words = [str(word) for word in (*LINE, "--mca", "coll", "^sync", program, BYTES, TIMES)]
    own = ["launch", "--hosts", "lab", "--store", tmp_path / "store", "--network", tmp_path / "n.network.json"]
    plan = subprocess.run(
        [GAVOTTE, *map(str, own), "--dry-run", "--json", "--", *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )
    assert plan.returncode == 0, plan.stderr
    assert json.loads(plan.stdout)["tuning"] is None

    listed = json.loads(gavotte("launch", "--history", "--store", tmp_path / "store", "--json").stdout)["runs"]
    assert [bool(each["settings"]) for each in listed] == [False, True, False]
    assert list(Path(environment["XDG_CACHE_HOME"]).rglob("run-*")) == []
