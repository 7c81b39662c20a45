"""`gavotte simulate`: files in and out, tables, one line for each mistake."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests import builders, shell

from gavotte.formats.app import write_app
from gavotte.formats.network import read_network, write_network
from gavotte.formats.placement import read_placement, write_placement
from gavotte.place import place
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.ramp import ramp_s

pytestmark = pytest.mark.slow

TOPOLOGY = """
format = "gavotte/topology/1"
[[switch]]
name = "core"
[[host]]
name = "a"
switch = "core"
egress = "80mbit"
[[host]]
name = "b"
switch = "core"
egress = "80mbit"
[[host]]
name = "c"
switch = "core"
ingress = "120mbit"
"""

FLOWS = """id,source,target,bytes,start_s
left,a,c,15000000,0
right,b,c,15000000,0
other,b,a,2500000,4
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a Topology, flows, a Network, an App and its Placement."""
    (tmp_path / "t.topology.toml").write_text(TOPOLOGY)
    (tmp_path / "flows.csv").write_text(FLOWS)
    network = builders.network("abc", 80e6, 0.5, cpus=1.0, egress_bps=80e6)
    app = builders.app("one", ("x", "y", 10_000_000), ("x", "z", 20_000_000), ("y", "z", 10_000_000, 1))
    write_network(tmp_path / "n.network.json", network)
    write_app(tmp_path / "one.app.toml", app)
    write_placement(tmp_path / "one.placement.json", place(network, [app], "greedy"))
    return tmp_path


def gavotte(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return shell.gavotte("simulate", *arguments, cwd=here)


def finish_s(path: Path) -> dict[str, float]:
    header, *rows = path.read_text().splitlines()
    assert header == "id,finish_s"
    return {name: float(time) for name, time in (row.split(",") for row in rows)}


def test_bytes_are_payload_unless_told_otherwise(here: Path) -> None:
    assert gavotte(here, "t.topology.toml", "flows.csv", "-o", "finish.csv").returncode == 0
    assert gavotte(here, "t.topology.toml", "flows.csv", "-o", "wire.csv", "--wire").returncode == 0
    assert finish_s(here / "wire.csv") == {"left": 2.0, "right": 2.0, "other": 4.25}
    assert finish_s(here / "finish.csv")["left"] == pytest.approx(2.0 / GOODPUT_PER_WIRE)


def test_what_people_see(here: Path) -> None:
    done = gavotte(here, "t.topology.toml", "flows.csv", "--wire", "-o", "finish.csv", "--links", "2")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["link", "rate", "carried", "mean", "use", "full", "for"],
        ["ingress", "of", "c", "120", "Mbit/s", "30.0", "MB", "47.1", "%", "2.000", "s"],
        ["egress", "of", "b", "80.0", "Mbit/s", "17.5", "MB", "41.2", "%", "0.250", "s"],
    ]
    assert done.stderr.splitlines() == [
        "showing the busiest 2 of 3 links",
        "3 flows in 4.25 s, 1.41667 s on average, seed 0",
        "wrote finish.csv",
    ]


def test_what_programs_see(here: Path) -> None:
    done = gavotte(here, "t.topology.toml", "flows.csv", "--wire", "--json")
    document = json.loads(done.stdout)
    links = {link["name"]: link for link in document.pop("links")}
    assert document == {
        "flows": 3,
        "finished": 3,
        "makespan_s": 4.25,
        "mean_s": pytest.approx(4.25 / 3),
        "end_s": 4.25,
        "events": 6,
        "seed": 0,
    }
    assert links["ingress of c"] == {
        "name": "ingress of c",
        "rate_bps": 120e6,
        "bytes": pytest.approx(30e6),
        "utilisation": pytest.approx(8 / 17),
        "full_s": pytest.approx(2.0),
    }
    assert done.stderr == ""


def test_a_start_up_latency_and_an_early_end(here: Path) -> None:
    late = ("t.topology.toml", "flows.csv", "--wire", "--alpha", "0.25", "-o", "finish.csv")
    assert gavotte(here, *late).returncode == 0
    assert finish_s(here / "finish.csv") == {"left": 2.25, "right": 2.25, "other": 4.5}
    done = gavotte(here, *late, "--until", "3", "--json")
    assert (here / "finish.csv").read_text().splitlines()[-1] == "other,"
    document = json.loads(done.stdout)
    assert (document["finished"], document["makespan_s"], document["end_s"]) == (2, None, 3.0)
    assert "2 of 3 flows had finished at 3 s" in gavotte(here, *late, "--until", "3").stderr


def test_background_traffic_depends_on_the_seed_alone(here: Path) -> None:
    others = ("--poisson", "a:*:4:1mb", "--on-off", "b:c:0.5:0.5:8mbit", "--json")
    one, same, other = (gavotte(here, "t.topology.toml", "flows.csv", *others, "--seed", seed).stdout for seed in "112")
    assert one == same
    assert json.loads(one)["makespan_s"] > 4.25
    assert json.loads(one)["makespan_s"] != json.loads(other)["makespan_s"]


def test_a_network_in_place_of_a_topology(here: Path) -> None:
    done = gavotte(here, "n.network.json", "flows.csv", "-o", "finish.csv")
    assert done.returncode == 0
    # 0.5 s of latency, then goodput as the Network has it.
    assert finish_s(here / "finish.csv") == {"left": 2.0, "right": 2.0, "other": 4.75}


def test_a_placement_on_its_network(here: Path) -> None:
    arguments = ("one.placement.json", "one.app.toml", "--network", "n.network.json", "-o", "finish.csv")
    document = json.loads(gavotte(here, *arguments, "--json").stdout)
    predicted_s = read_placement(here / "one.placement.json").completion_s
    # Each connection starts slowly at a round trip of a second, then sends 10 MB/s, of which `x` has half for a time.
    starts_s = {size: float(ramp_s(size, 80e6, 1.0, 1448)) for size in (10_000_000, 20_000_000)}
    first_s, second_s = 2.0 + starts_s[20_000_000], 1.0 + starts_s[10_000_000]
    assert document["predicted_s"] == predicted_s == pytest.approx(first_s + second_s)
    finished_s = finish_s(here / "finish.csv")
    assert finished_s["y>z.1"] == document["completion_s"] == document["apps"]["one"]
    assert finished_s["y>z.1"] - finished_s["x>z.0"] == pytest.approx(second_s)
    assert starts_s[20_000_000] + 2.0 <= finished_s["x>z.0"] <= starts_s[20_000_000] + 3.0
    assert document["flows"] == 3
    done = gavotte(here, *arguments).stderr.splitlines()
    assert f"greedy: completed in {document['completion_s']:.3f} s, predicted {predicted_s:.3f} s" in done


def test_shares_as_tcp_makes_them(here: Path) -> None:
    # The receiver of one of two equal flows is busy sending, so its acknowledgements wait.
    flows = FLOWS.splitlines()[0] + "\nslow,a,b,5000000,0\nfast,a,c,5000000,0\nback,b,a,5000000,0\n"
    (here / "flows.csv").write_text(flows)
    assert gavotte(here, "t.topology.toml", "flows.csv", "--wire", "-o", "finish.csv").returncode == 0
    equal = finish_s(here / "finish.csv")
    assert gavotte(here, "t.topology.toml", "flows.csv", "--wire", "--tcp", "-o", "finish.csv").returncode == 0
    tcp = finish_s(here / "finish.csv")
    assert equal["slow"] == equal["fast"]
    assert tcp["slow"] > tcp["fast"]
    placed = gavotte(here, "one.placement.json", "one.app.toml", "--network", "n.network.json", "--tcp", "--json")
    plain = gavotte(here, "one.placement.json", "one.app.toml", "--network", "n.network.json", "--json")
    assert json.loads(placed.stdout)["completion_s"] == pytest.approx(json.loads(plain.stdout)["completion_s"])


def test_no_flows_take_no_time(here: Path) -> None:
    (here / "none.csv").write_text(FLOWS.splitlines()[0] + "\n")
    done = gavotte(here, "t.topology.toml", "none.csv", "-o", "finish.csv", "--json")
    assert json.loads(done.stdout)["makespan_s"] == 0.0
    assert finish_s(here / "finish.csv") == {}


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (("none.toml", "flows.csv"), "none.toml: no such file", 1),
        (("t.topology.toml", "none.csv"), "none.csv: no such file", 1),
        (("flows.csv", "flows.csv"), "flows.csv: is a list of flows; use a Topology", 1),
        (("one.placement.json", "flows.csv"), "use --network", 2),
        (("t.topology.toml", "t.topology.toml"), "is a Topology; use a list of flows", 1),
        (("t.topology.toml", "flows.csv", "flows.csv"), "use one list of flows", 2),
        (("t.topology.toml",), "Missing argument", 2),
        (("n.network.json", "flows.csv", "--wire"), "--wire needs a Topology", 2),
        (("t.topology.toml", "flows.csv", "--alpha", "-1"), "'--alpha'", 2),
        (("t.topology.toml", "flows.csv", "--poisson", "a:b"), "background `a:b` has 2 parts", 1),
        (("t.topology.toml", "flows.csv", "-o", "no/such.csv"), "no/such.csv: no such folder", 1),
        (("one.placement.json", "flows.csv", "--network", "n.network.json"), "flows.csv: is a list of flows", 1),
        (("one.placement.json", "one.app.toml", "--network", "t.topology.toml", "--seed", "-1"), "'--seed'", 2),
    ],
)
def test_a_mistake_is_one_line(here: Path, arguments: tuple[str, ...], message: str, status: int) -> None:
    done = gavotte(here, *arguments)
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert done.returncode == status


def test_a_placement_on_other_hosts(here: Path) -> None:
    network = read_network(here / "n.network.json")
    hosts = [host.model_copy(update={"name": f"q{host.name}"}) for host in network.hosts]
    write_network(here / "other.network.json", network.model_copy(update={"hosts": hosts}))
    done = gavotte(here, "one.placement.json", "one.app.toml", "--network", "other.network.json")
    assert "which is not a host of the network" in done.stderr
    assert done.returncode == 1


def test_a_signal_ends_a_simulation_that_would_take_minutes(tmp_path: Path) -> None:
    """Racks that all share with all: each of 400,000 flows changes the rates of thousands of links."""
    racks, hosts = 100, 4000
    lines = ['format = "gavotte/topology/1"', '[[switch]]\nname = "core"']
    lines += [f'[[switch]]\nname = "tor{rack}"\nparent = "core"\nup = "10gbit"' for rack in range(racks)]
    lines += [f'[[host]]\nname = "h{host}"\nswitch = "tor{host % racks}"\negress = "1gbit"' for host in range(hosts)]
    (tmp_path / "t.topology.toml").write_text("\n".join(lines))
    rows = (
        f"f{n},h{n % hosts},h{(n * 7919 + n // hosts + 1) % hosts},10000000,{n % 997 / 100}" for n in range(400_000)
    )
    (tmp_path / "flows.csv").write_text("id,source,target,bytes,start_s\n" + "\n".join(rows) + "\n")
    words: list[str | Path] = [shell.GAVOTTE, "simulate", "t.topology.toml", "flows.csv"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(4)
        process.send_signal(signal.SIGTERM)
        report = process.communicate(timeout=12)[1]
    assert report == "error: stopped by SIGTERM\n"
    assert process.returncode == 128 + signal.SIGTERM


def test_a_topology_with_latency_loss_and_policer(here: Path) -> None:
    far = TOPOLOGY.replace('name = "c"\n', 'name = "c"\nlatency = "150ms"\njitter = "20ms"\npolicer = true\n')
    (here / "far.topology.toml").write_text(far)
    times = []
    for name in ("t", "far"):
        done = gavotte(here, f"{name}.topology.toml", "flows.csv", "-o", f"{name}.csv")
        assert done.returncode == 0
        assert "warning" not in done.stderr
        times.append(finish_s(here / f"{name}.csv"))
    later_s = {name: times[1][name] - near_s for name, near_s in times[0].items()}
    assert later_s == pytest.approx({"left": 0.16, "right": 0.16, "other": 0.0}, abs=1e-9)
    (here / "lossy.topology.toml").write_text(TOPOLOGY + "loss = 0.01\n")
    done = gavotte(here, "lossy.topology.toml", "flows.csv")
    # Without latency, TCP recovers at once.
    assert done.returncode == 0
    assert "warning" not in done.stderr


def test_a_traced_job_under_a_placement(tmp_path: Path) -> None:
    trace = Path(__file__).parents[1] / "profile" / "recorded" / "loops.trace"
    rates = [[None if m == n else 80e6 for n in range(4)] for m in range(4)]
    write_network(tmp_path / "n.network.json", builders.network("abcd", rates, sharing="pipe"))
    app = builders.app("x", *((f"rank{rank}", f"rank{(rank + 1) % 4}", 1000) for rank in range(4)))
    write_app(tmp_path / "a.app.toml", app)
    line = ["a.app.toml", "--network", "n.network.json", "--trace", str(trace), "--json"]
    placed = shell.gavotte(
        "place", "n.network.json", "a.app.toml", "--method", "round-robin", "-o", "p.placement.json", cwd=tmp_path
    )
    assert placed.returncode == 0, placed.stderr
    ran = shell.gavotte("simulate", "p.placement.json", *line, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    job = json.loads(ran.stdout)["job"]
    parts = job["compute_s"] + job["overhead_s"] + job["latency_s"] + job["transfer_s"]
    assert parts == pytest.approx(job["predicted_s"])
    assert 0 < job["least_s"] <= job["predicted_s"]
    assert 0 < job["computing_share"] <= 1
    alone = shell.gavotte("simulate", "p.placement.json", "a.app.toml", "--trace", str(trace), cwd=tmp_path)
    assert alone.returncode == 2
    write_app(tmp_path / "a.app.toml", builders.app("x", ("rank0", "rank1", 1000)))
    other = shell.gavotte("simulate", "p.placement.json", *line, cwd=tmp_path)
    assert other.returncode == 1
    assert "has 4" in other.stderr
