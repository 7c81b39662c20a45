"""What the self-tuning of the preloaded library costs and keeps, if operations take given times; without MPI."""

from __future__ import annotations

import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("mpicc.openmpi") is None, reason="Open MPI is not installed")

OPERATIONS = 1000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deciding") / "deciding"
    source = Path(__file__).with_name("deciding.c")
    with resources.as_file(resources.files("gavotte.collective") / "shim.c") as shim:
        line = ["mpicc.openmpi", "-g", "-O1", f"-I{shim.parent}", "-fsanitize=address,undefined"]
        line += ["-fno-sanitize-recover=all", "-o", str(path), str(source), "-lm", "-ldl"]
        made = subprocess.run(line, capture_output=True, text=True, timeout=100)
    if made.returncode and "sanitize" in made.stderr and "cannot find" in made.stderr:
        pytest.skip("no sanitizers")
    assert made.returncode == 0, made.stderr
    return path


def play(
    program: Path, times_s: tuple[float, float, float, float], noise: float = 0.0, change: int = -1, factor: float = 1.0
) -> tuple[float, float, str]:
    """Return the mean seconds of all operations and of the last half, and the way that is kept at the end.

    Args:
        program: the compiled program.
        times_s: seconds of the library, the exchange, the tree and the chain.
        noise: share by which times scatter, up or down.
        change: operation from which on the way that was kept then is slower; -1 = never.
        factor: by how much.
    """
    line = " ".join(map(str, (OPERATIONS, *times_s, noise, change, factor)))
    ran = subprocess.run([program], input=line, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    mean, late, *kept = ran.stdout.split()
    return float(mean), float(late), " ".join(kept)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("others", [(1.0, 1.0, 1.0), (1.3, 1.5, 1.8), (2.0, 1.1, 3.0)])
def test_a_library_that_is_as_fast_stays_at_a_cost_of_one_percent(
    program: Path, others: tuple[float, float, float], noise: float
) -> None:
    mean_s, late_s, kept = play(program, (1.0, *others), noise)
    if noise == 0.0:
        assert kept == "the library"
    assert mean_s <= 1.01
    assert late_s <= 1.006


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_faster_way_is_kept_and_the_library_is_rarely_timed_again(program: Path, noise: float) -> None:
    mean_s, late_s, kept = play(program, (1.0, 0.9, 0.5, 0.3), noise)
    assert kept == "chain"
    assert mean_s <= 0.33
    assert late_s <= 0.303 if noise == 0.0 else late_s <= 0.31


def test_a_way_that_saves_less_than_three_percent_is_not_kept(program: Path) -> None:
    assert play(program, (1.0, 0.98, 1.2, 1.1))[2] == "the library"
    assert play(program, (1.0, 0.95, 1.2, 1.1))[2] == "exchange"


def test_a_way_that_becomes_slow_is_replaced(program: Path) -> None:
    _, late_s, kept = play(program, (1.0, 0.9, 0.5, 0.3), change=100, factor=10.0)
    assert kept == "tree"
    assert late_s <= 0.6
