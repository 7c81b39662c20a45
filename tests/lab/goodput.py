"""Goodput of one TCP connection between two hosts of a lab, by iperf3."""

from __future__ import annotations

import json
import subprocess

import pytest

from gavotte import lab

ATTEMPTS = 8
"""Measurements at most: the machine may be busy with other work."""


def goodput_bps(session: lab.Session, source: str, target: str, *options: str) -> float:
    """Return the goodput of one second of TCP from `source` to `target`; `options` go to iperf3's client."""
    server = session.exec(target, ["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            assert server.poll() is None
        command = ["iperf3", "-c", target, "-t", "2", "-O", "1", "-C", "cubic", "-J", *options]
        client = session.run(source, command, capture_output=True, text=True, timeout=20)
    finally:
        server.kill()
        server.communicate()
    return float(json.loads(client.stdout)["end"]["sum_received"]["bits_per_second"])


def assert_goodput(
    session: lab.Session, source: str, target: str, expected_bps: float, *options: str, tolerance: float = 0.02
) -> None:
    """Assert the goodput of TCP from `source` to `target`."""
    for _attempt in range(ATTEMPTS):
        got = goodput_bps(session, source, target, *options)
        if abs(got / expected_bps - 1) < tolerance:
            break
    assert got == pytest.approx(expected_bps, rel=tolerance), f"{source} to {target}"
