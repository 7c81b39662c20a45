"""Real OpenTofu: its outputs name hosts, and it reads the hosts that `gavotte hosts export` writes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.shell import gavotte

from gavotte.agents import resolve_hosts

TOFU = os.environ.get("GAVOTTE_TOFU") or shutil.which("tofu") or shutil.which("terraform")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(TOFU is None, reason="no OpenTofu or Terraform")]

CONFIGURATION = """
variable "gavotte_hosts" { type = map(string) }
resource "terraform_data" "hosts" { input = var.gavotte_hosts }
output "hosts" { value = { for name, address in terraform_data.hosts.output : "new-${name}" => address } }
"""

HOSTS = """
format = "gavotte/hosts/1"
[[host]]
name = "web1"
address = "10.0.0.11"
agent = "ssh://ada@web1"
[[host]]
name = "db"
address = "10.0.0.12"
agent = "ssh://ada@db"
"""


def tofu(folder: Path, *words: str) -> str:
    """Run a command of OpenTofu, and return what it prints."""
    env = os.environ | {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
    done = subprocess.run([str(TOFU), *words], cwd=folder, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_hosts_go_there_and_come_back(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(CONFIGURATION)
    (tmp_path / "my.hosts.toml").write_text(HOSTS)
    words = ("hosts", "export", "--hosts", "my.hosts.toml", "--format", "terraform", "-o", "hosts.auto.tfvars.json")
    assert gavotte(*words, cwd=tmp_path).returncode == 0
    tofu(tmp_path, "init", "-input=false")
    tofu(tmp_path, "apply", "-auto-approve", "-input=false")
    for name, listing in (("outputs", ("output", "-json")), ("hosts", ("output", "-json", "hosts"))):
        (tmp_path / f"{name}.json").write_text(tofu(tmp_path, *listing))
        words = ("hosts", "import", "--listing", f"{name}.json", "--user", "ada", "-o", f"{name}.hosts.toml")
        done = gavotte(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        inventory = resolve_hosts(str(tmp_path / f"{name}.hosts.toml"))
        assert {host.name: host.address for host in inventory.host} == {"new-web1": "10.0.0.11", "new-db": "10.0.0.12"}
    (tmp_path / "state.json").write_text(tofu(tmp_path, "show", "-json"))
    refused = gavotte("hosts", "import", "--listing", "state.json", "-o", "s.hosts.toml", cwd=tmp_path)
    # It made no machines.
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
