"""`gavotte ranks` and `gavotte keep`, as a user types them."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from tests.place.test_ranks import racks
from tests.shell import GAVOTTE, gavotte

from gavotte import lab
from gavotte.formats.network import write_network


@pytest.fixture
def network(tmp_path: Path) -> Path:
    write_network(tmp_path / "n.network.json", racks())
    return tmp_path / "n.network.json"


def test_ranks_prints_a_host_per_line(network: Path) -> None:
    done = gavotte("ranks", "--network", network, "--pattern", "ring")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"h{n}" for n in range(6)]
    assert "6 ranks, ring: predicted" in done.stderr
    assert "67% less than in the given order" in done.stderr
    assert "--rdzv-backend static" in done.stderr


def test_ranks_writes_its_order_and_documents_it(network: Path, tmp_path: Path) -> None:
    done = gavotte("ranks", "--network", network, "--pattern", "halo:3x4", "-o", tmp_path / "order", "--json")
    document = json.loads(done.stdout)
    assert (tmp_path / "order").read_text().splitlines() == document["order"]
    assert len(document["order"]) == 12
    assert document["pattern"] == "halo:3x4"
    assert 0 < document["bound_s"] <= document["completion_s"] <= document["given_s"]


def test_some_hosts_of_a_network_have_an_order_of_their_own(network: Path) -> None:
    for hosts in ("h4,h1,h0", "h4, h1, h0, h1"):
        done = gavotte("ranks", "--network", network, "--hosts", hosts, "--pattern", "ring", "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert sorted(document["order"]) == ["h0", "h1", "h4"]
    kept = gavotte("keep", "1", "--network", network, "--of", "h4,h1", "--json")
    document = json.loads(kept.stdout)
    assert sorted(document["keep"] + document["release"]) == ["h1", "h4"]


def test_keep_names_what_to_release(network: Path) -> None:
    done = gavotte("keep", "3", "--network", network, "--json")
    document = json.loads(done.stdout)
    assert set(document) == {
        "keep", "release", "completion_s", "bound_s", "given_s", "saving", "seed", "interrupted", "warnings",
    }  # fmt: skip
    assert sorted(document["keep"] + document["release"]) == [f"h{n}" for n in range(6)]
    table = gavotte("keep", "3", "--network", network)
    assert table.stdout.count("release") == 3
    assert "less than on the first 3 hosts" in table.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ranks", "--pattern", "ring"], "give --network, --hosts or both"),
        (["ranks", "--pattern", "ring", "--hosts", "mpi:none", "--network", "N"], "none: no such file"),
        (["ranks", "--pattern", "ring", "--hosts", "", "--network", "N"], "no host is named; give `lab`"),
        (["ranks", "--pattern", "ring", "--hosts", "h0,h9", "--network", "N"], "--hosts: the network has no host `h9`"),
        (["ranks", "--pattern", "ring", "--network", "N", "--size", "much"], "--size: "),
        (["ranks", "--pattern", "ring", "--network", "N", "-n", "9", "--per-host", "1"], "use --per-host 2"),
        (["keep", "7", "--network", "N"], "cannot keep 7 of 6 hosts; keep fewer, or name more hosts"),
        (["keep", "2"], "give --network, --of or both"),
        (["keep", "2", "--network", "N", "--app", "a.app.toml", "--pattern", "ring"], "give either --pattern or --app"),
    ],
)
def test_mistakes_are_named(network: Path, words: list[str], message: str) -> None:
    done = gavotte(*(str(network) if word == "N" else word for word in words))
    assert done.returncode in (1, 2)
    assert message in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [["ranks", "--pattern", "halo:4x8"], ["keep", "24"]], ids=lambda each: each[0])
def test_ctrl_c_gets_the_best_answer_so_far(words: list[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    network = builders.network(32, rng.uniform(1e6, 1e9, (32, 32)), sharing="pipe")
    write_network(tmp_path / "n.network.json", network)
    line = [str(GAVOTTE), *words, "--network", str(tmp_path / "n.network.json"), "--time-limit", "600", "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert "searching for up to 600 s" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=60)
        assert child.returncode == 130, stderr
    document = json.loads(stdout)
    assert document["interrupted"]
    assert 0 < document["completion_s"] <= document["given_s"]
    assert "interrupted; this is the best placement found so far" in stderr


@pytest.mark.lab
def test_ranks_measures_hosts_first() -> None:
    hosts = [{"name": f"vm{n}", "egress": "20mbit" if n == 1 else "60mbit"} for n in range(3)]
    with lab.session(builders.topology(hosts), source="tests") as session:
        done = gavotte("keep", "2", "--of", session.hosts_file, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["release"] == ["vm1"], done.stderr
    assert "6 paths in" in done.stderr
