"""Launches let the preloaded library tune collectives while the job runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.building import Builds
from tests.shell import gavotte

from gavotte import lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpicc.openmpi") is None, reason="Open MPI is not installed"),
]

CLOUD = builders.topology([{"name": host, "rate": "200mbit"} for host in "abcd"])
BYTES, TIMES = 200_000, 10
LINE = ["mpirun.openmpi", "-N", "1", "-n", "4", "--mca", "btl", "tcp,self"]


def _compile(source: Path, path: Path) -> None:
    subprocess.run(["mpicc.openmpi", "-O2", source, "-o", path], check=True, timeout=100)


def test_the_preloaded_library_tunes_itself_from_the_second_run_on(builds: Builds, tmp_path: Path) -> None:
    source = Path(__file__).parent / "programs" / "spread.c"
    program = [str(builds.once("spread-openmpi", partial(_compile, source))), str(BYTES), str(TIMES)]
    with lab.session(CLOUD, agents=False) as session:
        environment = {**session.environment(), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}

        def run(**more: str) -> tuple[dict[str, Any], str]:
            options = ["--hosts", "lab", "--store", str(tmp_path / "store"), "--no-measure", "--json", "run.json"]
            words = ["launch", *options, "--self-tuning", "--explain", "--", *LINE, *program]
            ran = gavotte(*words, cwd=tmp_path, env=environment | more, timeout=200)
            assert ran.returncode == 0, ran.stderr
            return json.loads((tmp_path / "run.json").read_text()), ran.stderr

        first, message = run()
        assert first["settings"] == ""
        assert "collectives: not tuned while the job runs, since this run counts the messages" in message
        assert "gavotte: broadcast" not in message
        second, message = run()
        assert (second["settings"], second["tuning"]) == ("self", None)
        assert "collectives: the preloaded library tunes them while the job runs" in message
        assert f"gavotte: broadcast of {BYTES} bytes on 4 ranks, root 0: {TIMES} times, the library " in message
        off, message = run(GAVOTTE_TUNE="off")
        assert off["settings"] == ""
        assert "gavotte: broadcast" not in message
