"""Programs move real bytes: objects in memory, matrices, and objects of a Dask cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests import builders

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.transfer import Broadcast, Shuffle, read_copy

pytestmark = pytest.mark.lab

EXAMPLES = Path(__file__).parents[2] / "examples" / "dask"
CLOUD = builders.topology([{"name": name, "egress": "50mbit"} for name in "abc"])
TRUTH = builders.network([{"name": name, "egress_bps": 50e6 * GOODPUT_PER_WIRE} for name in "abc"])


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    with lab.session(CLOUD, source="tests") as session:
        yield session


def test_objects_are_sent_again_and_again(cloud: lab.Session, tmp_path: Path) -> None:
    sending = Broadcast(read_inventory(cloud.hosts_file), "b", folder=str(tmp_path))
    for content in (os.urandom(500_000), bytearray(b"1"), memoryview(os.urandom(300_000))):
        result = sending.send(content)
        assert result.lost == {}
        assert {each.host: read_copy(each.path) == content for each in result.receivers} == {"a": True, "c": True}
        assert result.plan.bound_s is None
        assert result.plan.estimate_s is not None
    # Its ports were probed once.
    assert sending.network is not None
    assert sending.network.names == ["b", "a", "c"]


def test_a_matrix_is_moved(cloud: lab.Session) -> None:
    shuffle = Shuffle(read_inventory(cloud.hosts_file), TRUTH)
    matrix = np.array([[0, 300_000, 100_000], [50_000, 0, 0], [0, 1, 0]])
    result = shuffle.send(matrix)
    assert {(flow.source, flow.target): flow.bytes for flow in result.flows} == {
        ("a", "b"): 300_000,
        ("a", "c"): 100_000,
        ("b", "a"): 50_000,
        ("c", "b"): 1,
    }
    assert result.bound_s == pytest.approx(shuffle.bound_s(matrix))


@pytest.mark.parametrize(
    ("program", "words", "same"),
    [
        ("regression.py", ["--features", "60000", "--iterations", "2"], "loss"),
        ("squares.py", ["--users", "300", "--films", "200", "--iterations", "2"], "error"),
    ],
)
@pytest.mark.rare
def test_the_papers_applications_find_the_same_either_way(program: str, words: list[str], same: str) -> None:
    line: list[str | Path] = [sys.executable, EXAMPLES / program, "--workers", "2", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    gavotte, dask = (json.loads(report) for report in done.stdout.splitlines())
    assert (gavotte["way"], dask["way"]) == ("gavotte", "dask")
    assert gavotte[same] == dask[same]
    assert 0 < gavotte["broadcast_s"] < 60


def test_dask_joins_where_measured_rates_say() -> None:
    line = [sys.executable, str(EXAMPLES / "rates.py"), "--repetitions", "1"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours, own = (json.loads(report) for report in done.stdout.splitlines())
    # 8 MB move at 100 Mbit/s, or 6 MB at 10 Mbit/s.
    assert (ours["workers"], own["workers"]) == (["h2"], ["h1"])


def test_small_objects_are_left_to_dask_and_large_ones_are_broadcast(tmp_path: Path) -> None:
    program = tmp_path / "choose.py"
    program.write_text(CHOOSE)
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    small, large, forced = (json.loads(report) for report in done.stdout.splitlines())
    assert small["way"] == "800 kB to 2 workers by Dask's own scatter; broadcasts are used from 4.00 MB on"
    assert (small["hosts"], small["sums"]) == ([], [800_000, 800_000])
    assert large["way"] == "6.00 MB to 2 workers by a broadcast; broadcasts are used from 4.00 MB on"
    assert (large["hosts"], large["sums"]) == (["h1", "h2"], [6_000_000, 6_000_000])
    assert forced["hosts"] == ["h1", "h2"]


CHOOSE = """
import json
import numpy as np
from cluster import in_lab, parser, senders
from gavotte import read_inventory
from gavotte.transfer.dask import Scatter

given = parser(None).parse_args()
if given.at is None:
    in_lab(__file__, [], workers=2, mbit=100)
else:
    with senders(given.at, given.hosts, 2) as (client, _):
        addresses = list(client.scheduler_info(n_workers=-1)["workers"])
        for size, least_bytes in ((800_000, None), (6_000_000, None), (800_000, 0)):
            scatter = Scatter(client, read_inventory(given.hosts), source="h0", least_bytes=least_bytes)
            kept = scatter(np.ones(size, dtype=np.uint8))
            sums = [client.submit(lambda data: int(data.sum()), kept, workers=[each], pure=False) for each in addresses]
            hosts = sorted(each.host for each in scatter.last.receivers) if scatter.last else []
            print(json.dumps({"way": scatter.way, "hosts": hosts, "sums": client.gather(sums)}), flush=True)
"""
"""Program that sends three objects to the workers of a new cluster, and prints how."""
