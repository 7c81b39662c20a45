"""A command that runs until it is stopped sees each signal, whatever it does when the signal comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

STOPPED = """
import os, subprocess, sys
from gavotte.cli.signals import stop_flag

sender = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())], stdin=subprocess.PIPE, bufsize=0)
for _ in range(4000):
    with stop_flag() as flag:
        sender.stdin.write(b"x")
        while not flag.wait(1e-6):
            pass
sender.stdin.close()
sender.wait()
"""

SENDER = """
import os, random, signal, sys, time

draw = random.Random(7)
while sys.stdin.buffer.read(1):
    due_s = time.perf_counter() + 3e-4 * draw.random()
    while time.perf_counter() < due_s:
        pass
    os.kill(int(sys.argv[1]), signal.SIGTERM)
"""


@pytest.mark.slow
def test_a_signal_within_the_wait_ends_it() -> None:
    # An Event that the handler itself set left the process waiting for ever, once in some hundred signals.
    subprocess.run([sys.executable, "-c", STOPPED, SENDER], check=True, timeout=60)
