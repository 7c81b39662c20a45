"""Launches set the MPI library's own algorithms where the replay of the job predicts that it pays."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
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
    pytest.mark.rare,
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


@dataclass
class Job:
    """A job of broadcasts on two racks, with a store of its own.

    Attributes:
        folder: folder of the job's files.
        environment: environment of the launches.
        program: command line of each rank.
    """

    folder: Path
    environment: dict[str, str]
    program: list[str]

    @property
    def options(self) -> list[str]:
        """Options of `gavotte launch`."""
        known = ["--store", self.folder / "store", "--network", self.folder / "n.network.json"]
        return [*map(str, ["launch", "--hosts", "lab", *known])]

    def run(self, *options: str, status: int = 0, **more: str) -> tuple[dict[str, Any], list[str], str]:
        """Return the result, how many variables each rank found set, and stderr."""
        own = [*self.options, "--json", str(self.folder / "run.json"), *options]
        environment = {**self.environment, **more}
        ran = gavotte(*own, "--", *LINE, *self.program, cwd=self.folder, env=environment, timeout=200)
        assert ran.returncode == status, ran.stderr
        document: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return document, [line.split()[2] for line in ran.stdout.splitlines() if line[:1].isdigit()], ran.stderr


@pytest.fixture
def job(session: lab.Session, builds: Builds, tmp_path: Path) -> Job:
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
    return Job(tmp_path, environment, [str(program), str(BYTES), str(TIMES)])


def test_a_job_of_broadcasts(job: Job) -> None:
    first, variables_set, _ = job.run()
    assert first["profiled"]
    assert (first["settings"], first["tuning"], variables_set) == ("", None, ["0"] * 4)

    # By default the root sends to each other host, two of which are behind the same uplink.
    tuned, variables_set, stderr = job.run("--explain")
    assert variables_set == ["2"] * 4
    assert tuned["tuning"]["used"]
    assert tuned["tuning"]["set_predicted_s"] < 0.8 * tuned["tuning"]["default_predicted_s"]
    assert "collectives: the MPI library is set for bcast" in stderr
    assert re.search(r"bcast of .* on 4 ranks: .* instead of .* by linear", stderr)
    assert tuned["predicted_s"] < tuned["default_predicted_s"]

    off, variables_set, _ = job.run("--explain", GAVOTTE_TUNE="off")
    assert (off["settings"], off["tuning"], variables_set) == ("", None, ["0"] * 4)

    # Settings of the user stay alone.
    words = [*LINE, "--mca", "coll", "^sync", *job.program]
    plan = subprocess.run(
        [GAVOTTE, *job.options, "--dry-run", "--json", "--", *words],
        capture_output=True,
        text=True,
        env=job.environment,
        cwd=job.folder,
        timeout=100,
        check=False,
    )
    assert plan.returncode == 0, plan.stderr
    assert json.loads(plan.stdout)["tuning"] is None

    listed = json.loads(gavotte("launch", "--history", "--store", job.folder / "store", "--json").stdout)["runs"]
    assert [bool(each["settings"]) for each in listed] == [False, True, False]
    assert list((job.folder / "cache").rglob("run-*")) == []


def test_a_run_that_fails_with_settings_is_followed_by_one_without(job: Job) -> None:
    script, status = job.folder / "program.sh", job.folder / "status"
    script.write_text(f'"$@" || exit\nexit $(cat {status})\n')
    status.write_text("0")
    job.program = ["sh", str(script), *job.program]
    job.run()
    status.write_text("3")
    failed, variables_set, stderr = job.run(status=3)
    assert (failed["status"], variables_set) == (3, ["2"] * 4)
    assert "warning: this run failed with settings of collectives, so the next one goes without them" in stderr
    status.write_text("0")
    without, variables_set, stderr = job.run("--explain")
    assert (without["settings"], variables_set) == ("", ["0"] * 4)
    assert "collectives: the MPI library's own choices, since the last run with settings failed" in stderr
