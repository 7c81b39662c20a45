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
from tests.guides import block

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


def test_one_plugin_gives_rates_and_broadcasts_until_it_is_unregistered(tmp_path: Path) -> None:
    program = tmp_path / "plugin.py"
    program.write_text(PLUGIN.replace("UNDO", block("dask", "client.unregister_scheduler_plugin").strip()))
    environment = {**os.environ, "PYTHONPATH": f"{EXAMPLES}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    before, during, away, after = (json.loads(report) for report in done.stdout.splitlines())
    # Dask predicts by one rate for all pairs.
    assert before["cost_s"] == before["own_cost_s"]
    assert before["cost_s"]["h1 to h2"] == before["cost_s"]["h2 to h1"]
    assert during["cost_s"] != during["own_cost_s"]
    assert during["cost_s"]["h1 to h2"] == pytest.approx(8 * 6e6 / 50e6, rel=0.01)
    assert during["cost_s"]["h2 to h1"] == pytest.approx(8 * 6e6 / 5e6, rel=0.01)
    assert after["cost_s"] == after["own_cost_s"]
    for each in (before, during, away, after):
        assert each["holders"] == {"800000": ["h1", "h2", "h3"], "6000000": ["h1", "h2", "h3"]}
        assert each["sums"] == [6_000_000] * 3
    (sent,) = during["broadcasts"]
    assert sorted([sent["source"], *sent["hosts"]]) == ["h1", "h2", "h3"]
    assert (before["broadcasts"], after["broadcasts"]) == ([], away["broadcasts"])
    # No agent was reachable, so Dask copied the object.
    assert away["cost_s"] == during["cost_s"]
    assert [each["action"] for each in away["broadcasts"]] == ["broadcast", "failed"]
    assert during["left"] == away["left"] == []


PLUGIN = """
import json
from pathlib import Path
import numpy as np
from cluster import in_lab, parser, senders
from distributed import wait
from gavotte import read_inventory, read_network
from gavotte.transfer.dask import Gavotte

MBIT = {"h0": 100, "h1": 50, "h2": 5, "h3": 50}
NETWORK = {"format": "gavotte/network/1", "hosts": [{"name": n, "egress_bps": 1e6 * r} for n, r in MBIT.items()]}


def costs(pairs, own, dask_scheduler):
    at = {each.name: each for each in dask_scheduler.workers.values()}
    ask = type(dask_scheduler).get_comm_cost.__get__(dask_scheduler) if own else dask_scheduler.get_comm_cost
    return {words: ask(dask_scheduler.tasks[key], at[words.split()[-1]]) for words, key in pairs.items()}


given = parser(None).parse_args()
if given.at is None:
    in_lab(__file__, [], workers=3, mbit=100)
else:
    folder = str(Path(__file__).parent)
    file = Path(folder, "cloud.network.json")
    file.write_text(json.dumps(NETWORK))
    with senders(given.at, given.hosts, 3) as (client, _):
        names = {address: each["name"] for address, each in client.scheduler_info(n_workers=-1)["workers"].items()}
        at = {name: address for address, name in names.items()}
        client.amm.stop()  # It would drop copies that no task needs yet.
        data = {n: client.submit(np.ones, 6_000_000, "u1", workers=[at[n]], pure=False) for n in ("h1", "h2")}
        users = {n: client.submit(len, each, workers=[at[n]], pure=False) for n, each in data.items()}
        wait([*data.values(), *users.values()])
        pairs = {"h1 to h2": users["h1"].key, "h2 to h1": users["h2"].key}
        network, inventory = read_network(file), read_inventory(given.hosts)
        agents = [host.model_copy(update={"agent": f"unix:/nowhere/{host.name}.sock"}) for host in inventory.host]
        for change in ("none", "register", "no agents", "unregister"):
            if change == "register":
                client.register_plugin(Gavotte(network, inventory, folder=folder))
            if change == "no agents":
                away = inventory.model_copy(update={"host": agents})
                client.register_plugin(Gavotte(network, away, folder=folder))
            if change == "unregister":
                UNDO
            arrays = {size: np.ones(size, "u1") for size in (800_000, 6_000_000)}
            kept = {size: client.scatter(array, broadcast=True, hash=False) for size, array in arrays.items()}
            holders = {size: sorted(names[e] for e in client.who_has(one)[one.key]) for size, one in kept.items()}
            large = kept[6_000_000]
            sums = [client.submit(lambda data: int(data.sum()), large, workers=[each], pure=False) for each in names]
            print(json.dumps({
                "cost_s": client.run_on_scheduler(costs, pairs, False),
                "own_cost_s": client.run_on_scheduler(costs, pairs, True),
                "holders": holders,
                "sums": client.gather(sums),
                "broadcasts": [event for _, event in client.get_events("gavotte")],
                "left": [str(path) for path in Path(folder).glob("gavotte-*")],
            }), flush=True)
"""
"""Program that asks a scheduler for its predictions and sends two objects: before, with and after the plugin."""
