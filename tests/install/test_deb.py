"""The Debian package of the agent: its files, its unit, and the service that it describes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shell import gavotte, until

ROOT = Path(__file__).parents[2]
DEB = ROOT / "tools" / "deb"
AGENT = Path(sys.executable).with_name("gavotte-agent")
NOBODY = 65534

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")


def pack(folder: Path, agent: Path = AGENT) -> Path:
    env = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    line = [sys.executable, str(DEB), str(agent), str(folder)]
    return Path(subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout.strip())


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The first bytes of the agent, since packing all of it takes seconds."""
    (tmp_path / "agent").write_bytes(AGENT.read_bytes()[: 1 << 16])
    return tmp_path / "agent"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's files, unpacked where any user can read them."""
    folder = tmp_path_factory.mktemp("deb")
    subprocess.run(["dpkg-deb", "-x", str(pack(folder)), str(folder / "root")], check=True)
    return folder / "root"


def test_two_builds_have_the_same_bytes(small: Path, tmp_path: Path) -> None:
    first, again = pack(tmp_path / "first", small), pack(tmp_path / "again", small)
    assert first.name == again.name
    assert re.fullmatch(r"gavotte-agent_\d+\.\d+\.\d+_(amd64|arm64)\.deb", first.name)
    assert first.read_bytes() == again.read_bytes()


def test_only_root_can_read_the_folder_for_keys(small: Path, tmp_path: Path) -> None:
    line = ["dpkg-deb", "-c", str(pack(tmp_path, small))]
    listed = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    rows = {row.split()[-1]: row.split()[:2] for row in listed.splitlines()}
    assert rows["./etc/gavotte/"] == ["drwx------", "root/root"]
    assert rows["./usr/bin/gavotte-agent"] == ["-rwxr-xr-x", "root/root"]
    assert {owner for _, owner in rows.values()} == {"root/root"}


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF" + bytes(30)])
def test_what_is_no_agent_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "agent").write_bytes(content)
    line = [sys.executable, str(DEB), str(tmp_path / "agent"), str(tmp_path / "out")]
    result = subprocess.run(line, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == f"deb: {tmp_path / 'agent'}: not a program for amd64 or arm64\n"
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("drop_in", [False, True], ids=["alone", "guarantees"])
def test_systemd_accepts_the_unit_and_rates_it_as_safe(tree: Path, tmp_path: Path, drop_in: bool) -> None:
    unit = (tree / "lib/systemd/system/gavotte-agent.service").read_text()
    (tmp_path / "gavotte-agent.service").write_text(unit.replace("/usr/bin/gavotte-agent", str(AGENT)))
    if drop_in:
        folder = tmp_path / "gavotte-agent.service.d"
        folder.mkdir()
        shutil.copy(tree / "usr/share/doc/gavotte-agent/guarantees.conf", folder)
    env = os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"}
    line = ["systemd-analyze", "verify", "--man=no", "gavotte-agent.service"]
    verified = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert [row for row in verified.stderr.splitlines() if "gavotte" in row] == []
    # In tenths of the exposure level.
    line = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", "gavotte-agent.service"]
    rated = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert rated.returncode == 0, rated.stdout[-300:] + rated.stderr
    lacking = {"CAP_NET_ADMIN", "CAP_(BPF|...)"} if drop_in else set()
    assert ("CapabilityBoundingSet=~CAP_NET_ADMIN" in marked(rated.stdout)) is bool(lacking)


def marked(table: str) -> str:
    """Return the rows of a rating that count against the unit."""
    return "\n".join(row for row in table.splitlines() if row.startswith("✗"))


def command(tree: Path, credentials: Path, **settings: str) -> list[str]:
    """Return the command of the unit, as systemd expands it."""
    unit = (tree / "lib/systemd/system/gavotte-agent.service").read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    lines = (tree / "etc/default/gavotte-agent").read_text().splitlines()
    values = dict(row.split("=", 1) for row in lines if row and not row.startswith("#"))
    values |= {"CREDENTIALS_DIRECTORY": str(credentials)} | settings
    words = [re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], word) for word in line.split()]
    return [str(tree) + words[0], *words[1:]]


@pytest.fixture
def service(tree: Path, tmp_path: Path) -> Iterator[Path]:
    """A service as the unit starts it: an ordinary user without capabilities, with keys that only it can read."""
    result = gavotte("hosts", "keys", "-o", "keys", "here=127.0.0.1", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    credentials = tmp_path / "credentials"
    shutil.copytree(tmp_path / "keys" / "hosts" / "here", credentials)
    line = command(tree, credentials, LISTEN="127.0.0.1:27412", DATA_PORT="27411")
    if os.geteuid() == 0:
        for path in (credentials, *credentials.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
        line = [*user, "--bounding-set=-all", *line]
        for folder in (tmp_path, *tmp_path.parents[:3], tree, *tree.parents[:3]):
            folder.chmod(folder.stat().st_mode | 0o011)
    inventory = tmp_path / "here.hosts.toml"
    inventory.write_text(
        'format = "gavotte/hosts/1"\nkeys = "keys"\n[[host]]\nname = "here"\naddress = "127.0.0.1"\n'
        'agent = "tls://127.0.0.1:27412"\n'
    )
    with subprocess.Popen(line, stderr=subprocess.PIPE, env={"STATE_DIRECTORY": str(credentials)}) as agent:
        yield inventory
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(20) == 0


@pytest.mark.lab
@pytest.mark.rare
def test_the_service_of_the_unit_serves_its_controller(service: Path) -> None:
    def checked() -> bool:
        result = gavotte("hosts", "check", "--hosts", str(service))
        return result.returncode == 0 and "without CAP_NET_ADMIN" in result.stderr

    until(checked, 60)
