"""Files for launchers, as text."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from typer.testing import CliRunner

from gavotte.cli.verbs import app as gavotte
from gavotte.errors import GavotteError
from gavotte.export import FORMATS, export
from gavotte.formats.network import write_network
from gavotte.formats.placement import Placement, write_placement


def placement(hosts: list[str]) -> Placement:
    return builders.placement({f"t{rank}": host for rank, host in enumerate(hosts)}, "sort")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("openmpi", "rank 0=b slot=0\nrank 1=b slot=1\nrank 2=a slot=0\nrank 3=b slot=2\n"),
        ("openmpi-seq", "b\nb\na\nb\n"),
        ("slurm", "b\nb\na\nb\n"),
        ("mpich", "b:2\na:1\nb:1\n"),
        ("csv", "rank,task,host\n0,t0,b\n1,t1,b\n2,t2,a\n3,t3,b\n"),
    ],
)
def test_text_of_each_format(name: str, text: str) -> None:
    assert export(placement(["b", "b", "a", "b"]), name) == text


@given(st.lists(st.sampled_from(["vm0", "vm1", "vm2"]), min_size=1, max_size=20))
def test_every_format_keeps_the_order_of_ranks(hosts: list[str]) -> None:
    given_ = placement(hosts)
    assert export(given_, "slurm").split() == hosts
    runs = [line.split(":") for line in export(given_, "mpich").split()]
    assert [host for host, count in runs for _ in range(int(count))] == hosts
    ranks = [line.removeprefix("rank ").split(" slot=") for line in export(given_, "openmpi").splitlines()]
    assert [pair for pair, _ in ranks] == [f"{rank}={host}" for rank, host in enumerate(hosts)]
    assert len({(pair.split("=")[1], slot) for pair, slot in ranks}) == len(hosts), "a slot holds one rank"
    document = json.loads(export(given_, "json"))
    assert [row["host"] for row in document["ranks"]] == hosts
    assert {host: [hosts[rank] for rank in ranks] for host, ranks in document["hosts"].items()} == {
        host: [host] * hosts.count(host) for host in set(hosts)
    }
    assert [row["host"] for row in csv.DictReader(io.StringIO(export(given_, "csv")))] == hosts


def test_what_cannot_be_exported_is_one_line() -> None:
    with pytest.raises(GavotteError, match="unknown format `pbs`; use openmpi, openmpi-seq"):
        export(placement(["a"]), "pbs")
    with pytest.raises(GavotteError, match="format `volcano` is not for a Placement; use openmpi"):
        export(placement(["a"]), "volcano")
    with pytest.raises(GavotteError, match="no application `grep`; it has sort"):
        export(placement(["a"]), "csv", app="grep")


def test_one_of_several_applications_has_ranks_of_its_own() -> None:
    keys = {"sort/t0": "a", "sort/t1": "b", "sorted/t0": "c", "sorted/t1": "c"}
    both = placement([]).model_copy(update={"apps": ["sort", "sorted"], "assignment": keys})
    assert export(both, "slurm") == "a\nb\nc\nc\n"
    assert export(both, "csv", app="sort") == "rank,task,host\n0,t0,a\n1,t1,b\n"
    assert export(both, "mpich", app="sorted") == "c:2\n"
    assert export(placement(["a"]), "slurm", app="sort") == "a\n"


@pytest.mark.slow
def test_command_line_writes_and_tells_usage(tmp_path: Path) -> None:
    source, target = tmp_path / "p.placement.json", tmp_path / "hosts"
    write_placement(source, placement(["b", "a"]))
    runner = CliRunner()
    for name in FORMATS:
        shown = runner.invoke(gavotte, ["export", str(source), "--format", name])
        written = runner.invoke(gavotte, ["export", str(source), "--format", name, "-o", str(target)])
        assert (shown.exit_code, written.exit_code) == (0, 0), shown.output + written.output
        assert shown.stdout == target.read_text() == export(placement(["b", "a"]), name)
    assert f"SLURM_HOSTFILE={target} srun --distribution=arbitrary --ntasks=2 PROGRAM" in " ".join(
        runner.invoke(gavotte, ["export", str(source), "--format", "slurm", "-o", str(target)]).output.split()
    )


@pytest.mark.parametrize("form", ["openmpi", "mpich"])
def test_hosts_with_more_ranks_than_cores_are_named(form: str, tmp_path: Path) -> None:
    write_placement(tmp_path / "p.placement.json", placement(["a", "b", "b", "b"]))
    write_network(tmp_path / "n.network.json", builders.network([{"name": "a"}, {"name": "b", "cpus": 2.0}]))
    words = ["export", str(tmp_path / "p.placement.json"), "--format", form]
    result = CliRunner().invoke(gavotte, [*words, "--network", str(tmp_path / "n.network.json"), "--json"])
    assert result.exit_code == 0
    advice = "; use --format openmpi-seq, which does not bind ranks to cores" if form == "openmpi" else ""
    assert result.stderr == f"warning: `b` gets 3 ranks and has 2 cores{advice}\n"
    assert json.loads(result.stdout)["warnings"] == [f"`b` gets 3 ranks and has 2 cores{advice}"]
    assert CliRunner().invoke(gavotte, [*words, "--json"]).stderr == ""


@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="no Open MPI")
def test_open_mpi_runs_more_ranks_than_cores_as_the_usage_says(tmp_path: Path) -> None:
    count = 3 * (os.cpu_count() or 1) + 1
    file = tmp_path / "hosts"
    file.write_text(export(placement([socket.gethostname().lower()] * count), "openmpi-seq"))
    usage = FORMATS["openmpi-seq"].usage.format(file=file, count=count).split(" PROGRAM (Open MPI 4)")[0]
    line = ["mpirun.openmpi", "--allow-run-as-root", *usage.split()[1:], "sh", "-c", "echo $OMPI_COMM_WORLD_RANK"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=90, check=False)
    assert ran.returncode == 0, ran.stderr
    assert sorted(map(int, ran.stdout.split())) == list(range(count))
