"""`gavotte hosts` as a user types it, without any host."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests import shell

from gavotte.formats.inventory import read_inventory
from gavotte.hosts import Bearer, keys

pytestmark = pytest.mark.slow


def gavotte(*words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return shell.gavotte("hosts", *words, cwd=cwd, env=os.environ | variables)


def test_import_to_stdout_and_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("10.0.0.1 slots=4\n10.0.0.2:2\n")
    done = gavotte("import", "--mpi-hostfile", "hosts", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "2 hosts\n"
    (tmp_path / "a.toml").write_text(done.stdout)
    done = gavotte("import", "--mpi-hostfile", "hosts", "-o", "b.toml", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "2 hosts in b.toml\n")
    assert read_inventory(tmp_path / "a.toml") == read_inventory(tmp_path / "b.toml")
    done = gavotte("list", "--hosts", "mpi:hosts", "--json", cwd=tmp_path)
    assert [host["agent"] for host in json.loads(done.stdout)["host"]] == ["ssh://10.0.0.1", "ssh://10.0.0.2"]
    table = gavotte("list", "--hosts", "b.toml", cwd=tmp_path).stdout.splitlines()
    assert table[1].split() == ["10.0.0.1", "10.0.0.1", "ssh://10.0.0.1", "4", "-"]


def test_a_slurm_allocation(tmp_path: Path) -> None:
    variables = {"SLURM_JOB_NODELIST": "10.0.0.[1-2]", "SLURM_TASKS_PER_NODE": "4(x2)"}
    done = gavotte("list", "--hosts", "slurm", "--json", cwd=tmp_path, **variables)
    assert [(h["name"], h["cpus"]) for h in json.loads(done.stdout)["host"]] == [("10.0.0.1", 4), ("10.0.0.2", 4)]


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (("import",), "use one of", 2),
        (("import", "--slurm", "--mpi-hostfile", "x"), "use one of", 2),
        (("import", "--slurm"), "$SLURM_JOB_NODELIST: is not set", 1),
        (("import", "--mpi-hostfile", "none"), "none: no such file", 1),
        (("import", "--ssh-config", "none"), "none: no such file", 1),
        (("list", "--hosts", "mpi:none"), "none: no such file", 1),
        (("check", "--hosts", "ssh-config:"), "needs a pattern", 1),
        (("check", "--hosts", "tls.toml"), "tls:// agents need keys", 1),
        (("install", "--hosts", "none.toml"), "none.toml: no such file", 1),
        (("keys", "-o", "keys"), "no host named", 1),
        (("keys", "-o", "keys", "a=b c"), "neither a name nor an address", 1),
    ],
)
def test_errors_are_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str, status: int) -> None:
    host = '[[host]]\nname = "a"\naddress = "10.0.0.1"\nagent = "tls://10.0.0.1"\n'
    (tmp_path / "tls.toml").write_text('format = "gavotte/hosts/1"\n' + host)
    done = gavotte(*arguments, cwd=tmp_path)
    assert done.returncode == status
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_keys_for_an_inventory(tmp_path: Path) -> None:
    host = '[[host]]\nname = "a"\naddress = "10.0.0.1"\nagent = "tls://a.example"\n'
    (tmp_path / "x.toml").write_text('format = "gavotte/hosts/1"\n' + host)
    done = gavotte("keys", "-o", "keys", "b=10.0.0.2", "--hosts", "x.toml", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["hosts"] == ["b", "a"]
    assert gavotte("keys", "-o", "keys", "b=10.0.0.2", cwd=tmp_path).stderr.startswith(
        "error: keys/ca.key already exists"
    )


def test_an_unreachable_agent_is_one_line_without_grpc_noise(tmp_path: Path) -> None:
    keys(tmp_path / "keys", [Bearer("a", ("127.0.0.1",))])
    host = '[[host]]\nname = "a"\naddress = "127.0.0.1"\nagent = "tls://127.0.0.1:1"\n'
    (tmp_path / "x.toml").write_text('format = "gavotte/hosts/1"\nkeys = "keys"\n' + host)
    done = gavotte("check", "--hosts", "x.toml", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "0 of 1 host can be used\n"
    assert "connection refused" in json.loads(done.stdout)["hosts"][0]["verdict"]
