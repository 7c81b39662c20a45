"""`gavotte transfers simulate`: output for programs and people, files, one line for each mistake."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests import builders, shell

from gavotte.cli.broadcast import _changes
from gavotte.formats.network import write_network
from gavotte.transfer.outcome import causes

pytestmark = pytest.mark.slow

TABLE = """coflow,arrival_s,source,target,bytes
big,0,a,b,3000000
big,0,c,b,3000000
small,1,a,b,1000000
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a trace and a Network."""
    (tmp_path / "trace.csv").write_text(TABLE)
    write_network(tmp_path / "n.network.json", builders.network("abc", egress_bps=8e6, ingress_bps=4e6))
    return tmp_path


def simulate(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return shell.gavotte("transfers", "simulate", *arguments, cwd=here)


def test_what_programs_see(here: Path) -> None:
    done = simulate(here, "trace.csv", "--policy", "sebf", "--port-bps", "8mbit", "--json", "-o", "finish.csv")
    document = json.loads(done.stdout)
    assert done.stderr == ""
    assert {key: document[key] for key in ("policy", "coflows", "step_s")} == {
        "policy": "sebf",
        "coflows": 2,
        "step_s": 0,
    }
    assert [document[key] for key in ("average_s", "p95_s", "max_s")] == pytest.approx([4.0, 6.7, 7.0])
    assert (here / "finish.csv").read_text() == "coflow,finish_s,completion_s\nbig,7.0,7.0\nsmall,2.0,1.0\n"
    bare = simulate(here, "trace.csv", "--policy", "sebf", "--port-bps", "8000000", "--json")
    assert json.loads(bare.stdout) == document


def test_policies_beside_each_other(here: Path) -> None:
    done = simulate(here, "trace.csv", "--policy", "fair", "--policy", "sebf", "--port-bps", "8mbit")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["policy", "average", "s", "95", "%", "within", "s", "longest", "s", "against", "fair"],
        ["fair", "5.00", "6.80", "7.00", "1.00", "x"],
        ["sebf", "4.00", "6.70", "7.00", "1.25", "x"],
    ]
    assert done.stderr.splitlines() == ["2 coflows, 3 flows, 3.50 s on average if each ran alone"]
    every = json.loads(simulate(here, "trace.csv", "--policy", "all", "--json").stdout)["simulations"]
    names = ["fair", "weighted", "fifo", "fifo+", "priority", "scf", "sebf", "d-clas", "bssi", "edf"]
    assert [each["policy"] for each in every] == names


def test_a_network_in_place_of_ports(here: Path) -> None:
    done = simulate(here, "trace.csv", "--policy", "fifo", "--network", "n.network.json", "--json")
    assert json.loads(done.stdout)["max_s"] == pytest.approx(13.0)


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (("none.csv", "--policy", "fair"), "none.csv: no such file", 1),
        (("n.network.json", "--policy", "fair"), "n.network.json: is a Network; use a coflow trace", 1),
        (("trace.csv",), "Missing option '--policy'", 2),
        (("trace.csv", "--policy", "lifo"), "unknown policy `lifo`; use fair, weighted", 2),
        (("trace.csv", "--policy", "all", "-o", "x.csv"), "-o writes the times of one policy", 2),
        (("trace.csv", "--policy", "fair", "--port-bps", "fast"), "`fast` is not a rate", 2),
        (("trace.csv", "--policy", "fair", "--step", "-1"), "'--step'", 2),
        (
            ("trace.csv", "--policy", "fair", "--port-bps", "1gbit", "--network", "n.network.json"),
            "use one of --port-bps and --network",
            2,
        ),
        (("trace.csv", "--policy", "fair", "-o", "no/such.csv"), "no/such.csv: no such folder", 1),
    ],
)
def test_a_mistake_is_one_line(here: Path, arguments: tuple[str, ...], message: str, status: int) -> None:
    done = simulate(here, *arguments)
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert done.returncode == status


def test_a_cause_that_many_receivers_share_is_named_once() -> None:
    lost = {f"vm{i}": f"/x/copies/vm{i}.partial: No such file or directory (os error 2)" for i in range(1, 8)}
    assert causes(lost | {"b": "no agent"}, "/x/copies/{host}") == [
        "vm1, vm2, vm3, vm4 and 3 more: /x/copies/{host}.partial: No such file or directory (os error 2)",
        "b: no agent",
    ]
    changes = [f"{host} no longer takes part: {why}" for host, why in lost.items()]
    late = ["h1 joined", "b no longer takes part: it fell silent"]
    assert _changes([*changes, *late], "/x/copies/{host}") == [
        *late,
        "no longer take part: vm1, vm2, vm3, vm4 and 3 more: /x/copies/{host}.partial: "
        "No such file or directory (os error 2)",
    ]
