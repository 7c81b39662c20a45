"""Paths on which long packets vanish: checks name them, and the remedy that they name ends an application's stall."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guarantee.stand import address
from tests.measure.test_black_holes_in_lab import NARROW_BYTES, black_hole
from tests.shell import gavotte

from gavotte import lab

pytestmark = pytest.mark.lab

SENT_BYTES = 300_000
SINK = """
import socket, sys
listener = socket.create_server((sys.argv[1], 7000), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("listens", flush=True)
stream, count = listener.accept()[0], 0
while data := stream.recv(1 << 16):
    count += len(data)
print(count, flush=True)
"""
SEND = "import socket, sys; socket.create_connection((sys.argv[1], 7000)).sendall(bytes(int(sys.argv[2])))"


@pytest.fixture(scope="module", params=["ipv4", "ipv6"])
def cloud(request: pytest.FixtureRequest) -> Iterator[lab.Session]:
    """Return a lab whose host x is behind a link that silently drops long packets."""
    with lab.session(black_hole(addresses=request.param), source="tests") as session:
        yield session


def test_checks_and_guarantees_name_the_paths_and_the_remedy(cloud: lab.Session, tmp_path: Path) -> None:
    wanted = tmp_path / "g.guarantee.toml"
    tables = "".join(f'[[guarantee]]\nhost = "{host}"\negress = "10mbit"\n' for host in "xy")
    wanted.write_text(f'format = "gavotte/guarantee/1"\n{tables}')
    hosts = ("--hosts", cloud.hosts_file)
    checked = gavotte("hosts", "check", *hosts)
    applied = gavotte("guarantee", "apply", wanted, *hosts)
    gavotte("guarantee", "clear", *hosts)
    for done, paths, sources in (
        (checked, "x to y, x to z, y to x and 1 more", "x, y, z"),
        (applied, "x to y, y to x", "x, y"),
    ):
        assert done.returncode == 0, done.stderr
        assert f"more than {NARROW_BYTES} bytes vanish" in done.stderr
        assert f"stalls: {paths}; run `sysctl -w net.ipv4.tcp_mtu_probing=1` on {sources}, or" in done.stderr


def test_the_remedy_ends_the_stall_of_an_application(cloud: lab.Session) -> None:
    target = address(cloud, "y")
    python = [sys.executable, "-I", "-S", "-c"]
    with cloud.exec("y", [*python, SINK, target], stdout=subprocess.PIPE, text=True) as sink:
        assert sink.stdout is not None
        assert sink.stdout.readline() == "listens\n"
        with cloud.exec("x", [*python, SEND, target, str(SENT_BYTES)]) as sender:
            try:
                with pytest.raises(subprocess.TimeoutExpired):
                    sink.wait(2)
                cloud.run("x", ["sysctl", "-q", "-w", "net.ipv4.tcp_mtu_probing=1"])
                assert sink.communicate(timeout=60)[0] == f"{SENT_BYTES}\n"
            finally:
                sender.kill()
                sink.kill()
