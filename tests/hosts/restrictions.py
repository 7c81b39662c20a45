"""Hosts that restrict their users' programs, in the ways of clouds, clusters and containers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Restriction:
    """Restrictions of a host's users.

    Attributes:
        mounts: shell commands that run in a mount namespace of the host's own, before its SSH server starts in it.
            `$CACHE` is the folder where the agent would be kept. `$PLACE` is that of the server's own files.
        wrapper: program before each command that a user runs; empty for none.
    """

    mounts: str = ""
    wrapper: tuple[str, ...] = ()


def _tiny(folder: str, options: str = "size=64k") -> str:
    return f"mount -t tmpfs -o mode=1777,{options} none {folder}"


_NOEXEC_HOME = 'mkdir -p "$CACHE" && mount -t tmpfs -o noexec none "$CACHE"'
# The server's own files may lie below /tmp.
_TINY_TMP = (
    'mkdir /run/kept && mount --rbind "$PLACE" /run/kept && mount -t tmpfs -o mode=1777,size=64k none /tmp && '
    'mkdir -p "$PLACE" && mount --rbind /run/kept "$PLACE"'
)
_NOEXEC_RUN = "mount -o remount,bind,noexec /run"
_READ_ONLY = "mount -o remount,bind,ro /"
# First, while the user may still read this folder: a checkout may lie below /root.
_POLICY = (sys.executable, str(_HERE / "policy.py"))
_NO_CAPABILITIES = ("setpriv", "--bounding-set=-all")
_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *_NO_CAPABILITIES[1:], "--no-new-privs")

RESTRICTIONS = {
    "noexec home": Restriction(_NOEXEC_HOME),
    "read-only root": Restriction(_READ_ONLY),
    "tiny folders": Restriction(
        " && ".join([_TINY_TMP, _NOEXEC_HOME, *map(_tiny, ("/var/tmp", "/dev/shm")), _NOEXEC_RUN])
    ),
    "nothing runs": Restriction(" && ".join([_READ_ONLY, _tiny("/dev/shm", "size=64m,noexec"), _NOEXEC_RUN])),
    "no bpf": Restriction(wrapper=_POLICY),
    "no capabilities": Restriction(wrapper=_NO_CAPABILITIES),
    "an ordinary user": Restriction(wrapper=_NOBODY),
    "a pod": Restriction(" && ".join([_READ_ONLY, _tiny("/dev/shm")]), (*_POLICY, *_NOBODY)),
}
"""By name."""
