"""Capture packets on an interface of this machine. tcpdump writes them, and a reader gets them immediately."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar

from gavotte.errors import GavotteError

LONGEST_S = 86_400.0
"""Longest time that a capture runs."""
SNAP_BYTES = 192
"""Headers of TCP over IPv6 in VXLAN over IPv6, with all options, are 190 bytes."""
SETTLING_S = 0.2
"""Wait before tcpdump is stopped, since packets that it has not fetched from the kernel are then lost."""

Read = TypeVar("Read")


def capture(
    interface: str, read: Callable[[str], Read], for_s: float | None, ready: Callable[[str], None] | None
) -> tuple[Read, int]:
    """Read packets as they arrive, until the time is up or Ctrl-C.

    Args:
        interface: an interface's name as `ip link` shows it, or `any`.
        read: function that reads the capture at a path to its end.
        for_s: how long to capture; None until Ctrl-C, at most `LONGEST_S`.
        ready: called with the interface once packets are seen.

    Returns:
        The result of `read`, and the number of packets that the kernel dropped because they came too fast.

    Raises:
        GavotteError: when tcpdump is not installed, or it may not capture on the interface.
    """
    program = shutil.which("tcpdump") or shutil.which("tcpdump", path="/usr/sbin:/sbin")
    if program is None:
        raise GavotteError("tcpdump is not installed", hint="install it, or use `gavotte profile live`")
    # tcpdump gets its own session, so that Ctrl-C reaches only this process, which then stops tcpdump.
    # tcpdump stays root, since a user namespace may have no other user.
    line = [program, "-n", "-i", interface, "-s", str(SNAP_BYTES), "-B", "16384", "--immediate-mode"]
    line += ["-Z", "root", "-w", "-"]
    with (
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as dumping,
        ThreadPoolExecutor(2) as pool,
    ):
        assert dumping.stdout is not None
        assert dumping.stderr is not None
        messages = []
        for each in dumping.stderr:
            messages.append(each.decode(errors="replace").strip())
            if "listening on" in messages[-1]:
                break
        else:
            why = messages[-1].removeprefix("tcpdump: ") if messages else "it ended"
            raise GavotteError(
                f"tcpdump cannot capture on {interface}: {why}",
                hint="see `ip link` for the names; capturing needs CAP_NET_RAW",
            )
        rest = pool.submit(dumping.stderr.read)
        reading = pool.submit(read, f"/dev/fd/{dumping.stdout.fileno()}")
        with suppress(KeyboardInterrupt):  # how a user ends it
            if ready is not None:
                ready(interface)
            wait([reading], LONGEST_S if for_s is None else for_s)
        time.sleep(SETTLING_S)
        dumping.send_signal(signal.SIGINT)
        try:
            result = reading.result()
        except BaseException:
            dumping.kill()  # no process reads its remaining output
            raise
        lost = re.search(r"(\d+) packets dropped by kernel", rest.result().decode(errors="replace"))
    return result, int(lost[1]) if lost else 0
