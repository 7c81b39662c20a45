"""Faults in a lab, for tests of one fault each, and for `tests.chaos` at random."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.shell import until

from gavotte import lab
from gavotte.agents.binary import agent_binary
from gavotte.lab import crew

_TO_AGENT = """
for process in /proc/[0-9]*; do
    if [ "$(cat $process/comm 2>/dev/null)" = "$0" ] &&
       [ "$(readlink $process/ns/net)" = "$(readlink /proc/self/ns/net)" ]; then
        kill -$1 "${process#/proc/}"
    fi
done
"""


def full_disk(size_bytes: int) -> list[str]:
    """Command prefix that limits the size of every written file.

    A `preexec_fn` would do the same, but it forks, and with gRPC loaded some children abort before they begin.
    """
    return ["prlimit", f"--fsize={size_bytes}"]


def to_agent(session: lab.Session, host: str, number: signal.Signals) -> None:
    """Send a signal to a host's agent."""
    comm = Path(agent_binary()).name[:15]
    session.run(host, ["sh", "-c", _TO_AGENT, comm, str(int(number))])


def kill_agent(session: lab.Session, host: str) -> None:
    """Kill the agent at once."""
    to_agent(session, host, signal.SIGKILL)
    until(lambda: not crew.answers(crew.socket_path(session.folder, host)))


def start_agent(session: lab.Session, host: str) -> None:
    """Start a new agent where one was killed, and wait until it answers; it ends with the lab."""
    socket = crew.socket_path(session.folder, host)
    socket.unlink(missing_ok=True)
    # In the background, where the lab's keeper reaps it.
    line = 'setsid "$0" serve --socket "$1" </dev/null >>"$2" 2>&1 &'
    session.run(host, ["sh", "-c", line, agent_binary(), str(socket), str(crew.log_path(session.folder, host))])
    until(lambda: crew.answers(socket))


def unplug(session: lab.Session, host: str) -> str:
    """Take the host's interface down; return the routes that it loses."""
    routes = str(session.run(host, ["ip", "route"], capture_output=True, text=True).stdout)
    assert session.run(host, ["ip", "link", "set", "eth0", "down"]).returncode == 0
    return routes


def plug(session: lab.Session, host: str, routes: str) -> None:
    """Bring the interface up again, with its routes."""
    assert session.run(host, ["ip", "link", "set", "eth0", "up"]).returncode == 0
    for route in routes.splitlines():
        session.run(host, ["ip", "route", "replace", *route.split()], stderr=subprocess.DEVNULL)


def blackhole(session: lab.Session, switch: str, address: str) -> None:
    """Make a switch drop all packets to an address."""
    assert session.run(switch, ["ip", "route", "add", "blackhole", f"{address}/32"]).returncode == 0
