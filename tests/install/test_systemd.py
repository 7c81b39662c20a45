"""The Debian package of the agent under a real systemd: `make test-systemd`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.install.test_deb import pack
from tests.shell import gavotte

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(os.environ.get("GAVOTTE_SYSTEMD") != "real", reason="needs root: make test-systemd")

STEPS = {
    "installed": "dpkg -i /mnt/shared/*.deb; systemctl start gavotte-agent; systemctl is-active gavotte-agent",
    "with keys": "install -m 600 /mnt/shared/keys/hosts/here/* /etc/gavotte/; systemctl start gavotte-agent; sleep 2; "
    "{rights}",
    "checked": "{check}",
    "granted": "mkdir -p {drop_ins}; cp /usr/share/doc/gavotte-agent/guarantees.conf {drop_ins}; "
    "systemctl daemon-reload; systemctl restart gavotte-agent; sleep 2; {rights}",
    "checked again": "{check}",
    "removed": "systemctl enable gavotte-agent; dpkg -r gavotte-agent; systemctl is-active gavotte-agent; "
    "ls /etc/systemd/system/*.wants /usr/bin/gavotte-agent; dpkg -P gavotte-agent; ls /var/lib/private; "
    "ls /etc/gavotte",
}
RIGHTS = "grep -E 'Uid|CapEff|NoNewPrivs|Seccomp:' /proc/$(systemctl show -p MainPID --value gavotte-agent)/status"
INVENTORY = """\
format = "gavotte/hosts/1"
keys = "keys"
[[host]]
name = "here"
address = "127.0.0.1"
agent = "tls://127.0.0.1:7412"
"""
NET_ADMIN_AND_BPF = 1 << 12 | 1 << 39


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each step prints, in one run of systemd."""
    folder = tmp_path_factory.mktemp("systemd")
    pack(folder)
    assert gavotte("hosts", "keys", "-o", "keys", "here=127.0.0.1", cwd=folder).returncode == 0
    (folder / "here.hosts.toml").write_text(INVENTORY)
    program = ROOT / ".venv" / "bin" / "gavotte"
    words = {
        "rights": RIGHTS,
        "check": f"HOME=/root {program} hosts check --hosts /mnt/shared/here.hosts.toml",
        "drop_ins": "/etc/systemd/system/gavotte-agent.service.d",
    }
    lines = (f"echo '== {name}'\n{step.format(**words)}" for name, step in STEPS.items())
    (folder / "script").write_text("exec 2>&1\n" + "\n".join(lines) + "\n")
    line: Sequence[str | Path] = [ROOT / "tools" / "systemd", folder / "script", folder]
    subprocess.run(line, check=True, timeout=150)
    parts = re.split(r"^== (.+)\n", (folder / "output").read_text(), flags=re.MULTILINE)
    return {name: text.splitlines() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def rights(lines: list[str]) -> dict[str, int]:
    """Return user, capabilities and filters of the agent's process."""
    (status,) = [dict(line.split(":", 1) for line in lines if ":" in line)]
    numbers = {key: value.split()[0] for key, value in status.items()}
    return {key: int(value, 16 if key == "CapEff" else 10) for key, value in numbers.items()}


def test_without_keys_it_does_not_start(printed: dict[str, list[str]]) -> None:
    assert printed["installed"][-1] == "inactive"


def test_with_keys_it_serves_as_a_user_without_rights(printed: dict[str, list[str]]) -> None:
    held = rights(printed["with keys"])
    assert held["Uid"] >= 61184  # systemd's range of users that exist as long as their service
    assert {key: held[key] for key in ("CapEff", "NoNewPrivs", "Seccomp")} == {
        "CapEff": 0,
        "NoNewPrivs": 1,
        "Seccomp": 2,
    }
    assert "1 of 1 host can be used" in printed["checked"]
    assert any("without CAP_NET_ADMIN" in line for line in printed["checked"])


def test_the_drop_in_grants_what_guarantees_need_and_nothing_else(printed: dict[str, list[str]]) -> None:
    held = rights(printed["granted"])
    assert held["CapEff"] == NET_ADMIN_AND_BPF
    assert held["Uid"] != 0
    assert "1 of 1 host can be used" in printed["checked again"]
    assert not any("without CAP" in line for line in printed["checked again"])


def test_removed_it_leaves_the_keys_alone(printed: dict[str, list[str]]) -> None:
    assert "inactive" in printed["removed"]
    assert not any("gavotte-agent.service" in line and line.startswith("lrwx") for line in printed["removed"])
    assert printed["removed"][-3:] == ["ca.pem", "host.key", "host.pem"]
    assert "gavotte" not in printed["removed"]
