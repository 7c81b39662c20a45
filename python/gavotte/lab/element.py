"""The process that carries those links of a lab that delay, lose or police packets. Runs inside the keeper only."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavotte.errors import AgentError
from gavotte.lab import wiring
from gavotte.lab.layout import ELEMENT

POLL_S = 0.05
READY = b"ready\n"


@dataclass(frozen=True)
class Element:
    """The running process.

    Attributes:
        pid: its number.
        reports: pipe on which it reports that it is ready.
    """

    pid: int
    reports: int


def log_path(folder: Path) -> Path:
    """Return the path of the element's error log."""
    return folder / "element.log"


def warnings(folder: Path) -> tuple[str, ...]:
    """Return the element's last report of packets that it failed to carry; nothing if it carried all.

    Args:
        folder: the lab's folder.
    """
    path = log_path(folder)
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return tuple(lines[-1:])


def start(binary: str, plan: Mapping[str, Any], folder: Path, namespace_folder: Path) -> Element:
    """Start the element; leave this process in its network namespace.

    Args:
        binary: the agent, which has the element as a hidden command.
        plan: what to do.
        folder: the lab's folder.
        namespace_folder: holds the namespaces' files.

    Raises:
        AgentError: when the binary cannot be run.
    """
    wiring.step_into(namespace_folder, ELEMENT)
    plan_path = folder / "element.json"
    plan_path.write_text(json.dumps(plan))
    reader, writer = os.pipe2(os.O_CLOEXEC)
    files = [
        (os.POSIX_SPAWN_OPEN, 0, str(plan_path), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writer, 1),
        (os.POSIX_SPAWN_OPEN, 2, str(log_path(folder)), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
    ]
    try:
        pid = os.posix_spawn(
            binary, [binary, "impair"], os.environ, file_actions=files, setsid=True, setsigdef=(signal.SIGXFSZ,)
        )
    except OSError as error:
        os.close(reader)
        raise AgentError(f"cannot run the agent {binary}: {error.strerror}") from None
    finally:
        os.close(writer)
    return Element(pid, reader)


def wait_until_ready(element: Element, folder: Path, deadline_s: float, still_wanted: Callable[[], None]) -> None:
    """Wait until the element carries packets.

    Args:
        element: the process.
        folder: the lab's folder.
        deadline_s: how long to wait at most.
        still_wanted: called meanwhile; raises to stop.

    Raises:
        AgentError: when the process ends, or is late.
    """
    deadline = time.monotonic() + deadline_s
    try:
        while not select.select([element.reports], [], [], POLL_S)[0]:
            still_wanted()
            if time.monotonic() > deadline:
                raise AgentError(f"the links do not carry packets within {deadline_s:.0f} s")
        if os.read(element.reports, len(READY)) != READY:
            log = log_path(folder).read_text(errors="replace").strip().splitlines()
            raise AgentError("the links' process exited at once", hint=f"it printed: {log[-1][:300]}" if log else "")
    finally:
        os.close(element.reports)
