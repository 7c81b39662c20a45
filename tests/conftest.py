"""Shared fixtures: a private runtime folder, a small lab, and skipping where no lab can run."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import builders
from tests.building import Builds

from gavotte import lab
from gavotte.agents.runtime import LAB_VARIABLE, RUNTIME_DIR_VARIABLE
from gavotte.cli.entry import SLIM

pytest_plugins = ["pytester", "tests.reruns", "tests.examples"]

SMALL_CLOUD = builders.topology(
    [
        {"name": "a", "machine": "pm0", "egress": "100mbit", "cpus": 2},
        {"name": "b", "machine": "pm0", "egress": "200mbit", "cpus": 2},
        {"name": "c", "egress": "150mbit", "cpus": 2},
    ],
    switches=["core", {"name": "tor0", "up": "1gbit"}],
    machine=[{"name": "pm0", "switch": "tor0", "rate": "1gbit", "machine_rate": "2gbit"}],
)


# Reading all tests takes each worker 17 s, and half of that if compiled files are kept. An environment that forbids
# them in the tree gets them elsewhere.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / "target" / "pycache")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--most-cases",
        type=int,
        default=0,
        metavar="N",
        help="run at most N cases of each parametrized test marked lab or slow: the first, the last, and some between",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without a lab if only labs are asked for: three of four, which each worker would load."""
    if not config.getoption("markexpr").startswith("lab") or not collection_path.name.startswith("test_"):
        return None
    return None if "mark.lab" in collection_path.read_text("utf-8") else True


def pytest_configure() -> None:
    # A shell starts its background programs with Ctrl-C ignored, and their children inherit that: no tcpdump would end.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if most := config.getoption("most_cases"):
        left_out = cases_left_out(items, most)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]
    marked = [item for item in items if item.get_closest_marker("lab")]
    if marked and not lab.supported():
        reason = f"no lab can stand here: {lab.missing()}"
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))
    for item in marked:
        # Tests with real packets get one more try, and the summary names them: on a loaded machine, a lost time slice
        # of 100 ms fails a good probe. A test without packets gets one try.
        item.add_marker(pytest.mark.flaky(reruns=2))


def cases_left_out(items: list[pytest.Item], most: int) -> set[str]:
    """Return the cases of parametrized tests marked lab or slow beyond a number, spread over the order of the cases.

    `make test` takes two with packets and four without, since most cases differ in an address family, a signal or a
    library. `make test-cases` runs all of them.
    """
    cases: dict[str, list[str]] = {}
    for item in items:
        long = item.get_closest_marker("lab") or item.get_closest_marker("slow")
        if long and not item.get_closest_marker("each_case"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    left_out = set[str]()
    for each in cases.values():
        if len(each) > most:
            chosen = {round(at * (len(each) - 1) / max(most - 1, 1)) for at in range(most)}
            left_out.update(case for at, case in enumerate(each) if at not in chosen)
    return left_out


@pytest.fixture(scope="session", autouse=True)
def runtime() -> Iterator[Path]:
    """A runtime folder of the tests' own, with a short path, so that no lab of the user's is touched."""
    folder = Path(tempfile.mkdtemp(prefix="gvt-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(RUNTIME_DIR_VARIABLE, str(folder))
        patch.delenv(LAB_VARIABLE, raising=False)
        for name in ("COLUMNS", "LINES"):
            # pytest loads readline, which sets both behind Python's back, and commands would wrap their tables.
            os.environ[name] = ""
            patch.delenv(name)
        # Commands start 80 ms sooner, and tests start thousands of them.
        for name, value in SLIM.items():
            patch.setenv(name, value)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """Programs that are compiled once for all workers, whose own folders are in one folder."""
    own = tmp_path_factory.getbasetemp()
    return Builds((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "builds")


@pytest.fixture(scope="session")
def small_cloud() -> Iterator[lab.Session]:
    """Three hosts: a and b on one machine behind a rack, c at the core; egress 100, 200, 150 Mbit/s."""
    with lab.session(SMALL_CLOUD, source="tests") as session:
        yield session
