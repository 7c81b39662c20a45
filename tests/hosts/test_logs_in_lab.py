"""The agents' log, as `gavotte hosts logs` prints it."""

from __future__ import annotations

import json

import pytest
from tests.shell import gavotte

from gavotte.lab import Session


@pytest.mark.lab
def test_the_log_of_an_agent_names_run_peer_and_round(small_cloud: Session) -> None:
    hosts = str(small_cloud.hosts_file)
    measured = gavotte("-v", "measure", "--hosts", hosts, "--json", "-o", "/dev/null")
    assert measured.returncode == 0, measured.stderr
    run = measured.stderr.split("INFO gavotte.agents.fleet: run ")[1].split(":")[0]
    report = json.loads(gavotte("hosts", "logs", "a", "--hosts", hosts, "--lines", "400", "--json").stdout)
    lines = report["lines"]
    assert report["host"] == "a"
    assert any("enrolled run=" in line and run in line for line in lines)
    assert any(f'schedule{{run="{run}"}}' in line and "schedule begins" in line for line in lines)
    last = gavotte("hosts", "logs", "a", "--hosts", hosts, "--lines", "1").stdout
    assert last.count("\n") == 1
    assert " released run=" in last


@pytest.mark.lab
def test_a_host_that_is_not_there_is_one_line(small_cloud: Session) -> None:
    refused = gavotte("hosts", "logs", "z", "--hosts", str(small_cloud.hosts_file))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "error: the inventory has no host `z`; use one of: a, b, c\n"
