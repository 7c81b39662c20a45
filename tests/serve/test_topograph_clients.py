"""Topograph's own clients ask `gavotte serve`.

They are read from a copy of https://github.com/NVIDIA/topograph in the folder of GAVOTTE_TOPOGRAPH:

1. `scripts/create-topology-update-script.sh` writes the script that Slurm is to run when a node goes down or up.
2. A program of ours sends Topograph's `Request` by its `internal/httpreq`, as its node observer does, and polls.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.served import Served, racks, serving

from gavotte.export import export_network

COPY = os.environ.get("GAVOTTE_TOPOGRAPH", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not COPY, reason="GAVOTTE_TOPOGRAPH names no copy of Topograph"),
]

PROGRAM = """
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/NVIDIA/topograph/internal/httpreq"
	"github.com/NVIDIA/topograph/pkg/topology"
)

func ask(method string, query map[string]string, body []byte, url string) (int, []byte) {
	headers := map[string]string{"Content-Type": "application/json"}
	f := httpreq.GetRequestFunc(context.Background(), method, headers, query, body, url)
	response, answer, err := httpreq.DoRequest(f, false)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return response.StatusCode, answer
}

func main() {
	base, provider, engine := os.Args[1], os.Args[2], os.Args[3]
	request := topology.NewRequest(topology.Provider{Name: provider}, topology.Engine{Name: engine})
	body, _ := json.Marshal(request)
	_, uid := ask(http.MethodPost, nil, body, base+"/v1/generate")
	for {
		status, answer := ask(http.MethodGet, map[string]string{topology.KeyUID: string(uid)}, nil, base+"/v1/topology")
		if status == http.StatusOK {
			os.Stdout.Write(answer)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    # Instead of a Slurm that reads the file again.
    program(tmp_path, "scontrol", f"echo $1 >> {tmp_path}/calls")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with serving(tmp_path, "--topology-file", tmp_path / "topology.conf", network=racks()) as server:
        yield server


def program(folder: Path, name: str, line: str) -> None:
    """Write a program that precedes others of its name."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
    (folder / "bin" / name).chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("curl") is None, reason="the script wants root and curl")
def test_the_script_that_slurm_runs_updates_its_topology(served: Served, tmp_path: Path) -> None:
    # `su` would register the script with Slurm. curl goes to the service's port instead of Topograph's.
    program(tmp_path, "su", f'echo "$@" >> {tmp_path}/su')
    to = f"localhost:49021:{served.base.removeprefix('http://')}"
    program(tmp_path, "curl", f'exec {shutil.which("curl")} --silent --connect-to {to} "$@"')
    script, target = tmp_path / "update.sh", tmp_path / "topology.conf"
    create = [
        "bash",
        f"{COPY}/scripts/create-topology-update-script.sh",
        "-p",
        "aws",
        "-s",
        str(script),
        "-c",
        str(target),
    ]
    subprocess.run(create, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
    assert f"strigger --set --node --down --up --flags=perm --program={script}" in (tmp_path / "su").read_text()
    ran = subprocess.run([script], check=True, capture_output=True, text=True)
    assert len(ran.stdout) == 32, "the identifier of the request"
    end = time.monotonic() + 20
    while not (tmp_path / "calls").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert target.read_text() == export_network(racks(), "slurm-conf")
    assert (tmp_path / "calls").read_text() == "reconfigure\n"


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go")
def test_its_go_client_polls_until_the_topology_is_ready(served: Served, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for folder in ("internal", "pkg"):
        shutil.copytree(f"{COPY}/{folder}", copy / folder)
    for name in ("go.mod", "go.sum"):
        shutil.copy(f"{COPY}/{name}", copy / name)
    (copy / "cmd" / "asking").mkdir(parents=True)
    (copy / "cmd" / "asking" / "main.go").write_text(PROGRAM)
    build = ["go", "build", "-o", str(tmp_path / "asking"), "./cmd/asking"]
    built = subprocess.run(build, cwd=copy, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for provider, engine, form in (("aws", "slurm", "slurm-conf"), ("oci", "graph", "topograph")):
        line = [str(tmp_path / "asking"), served.base, provider, engine]
        ran = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert (ran.returncode, ran.stdout) == (0, export_network(racks(), form)), ran.stderr
