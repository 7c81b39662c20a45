"""Runs a command under a system call filter like that of a default pod or container: `policy.py COMMAND ...`.

`bpf`, `perf_event_open` and calls that change namespaces or mounts are not permitted, even as root.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_LOAD_NUMBER = struct.pack("=HBBI", 0x20, 0, 0, 0)
_ALLOW = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
_NOT_PERMITTED = struct.pack("=HBBI", 0x06, 0, 0, 0x00050000 | 1)
DENIED = {
    "x86_64": {"bpf": 321, "perf_event_open": 298, "mount": 165, "unshare": 272, "setns": 308, "ptrace": 101},
    "aarch64": {"bpf": 280, "perf_event_open": 241, "mount": 40, "unshare": 97, "setns": 268, "ptrace": 117},
}
"""System calls by machine."""


def forbid(numbers: list[int]) -> None:
    """Make these system calls fail with EPERM, in this process and in all that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    tests = [
        struct.pack("=HBBI", 0x15, len(numbers) - index, 0, number)  # to _NOT_PERMITTED when equal
        for index, number in enumerate(numbers)
    ]
    code = b"".join([_LOAD_NUMBER, *tests, _ALLOW, _NOT_PERMITTED])
    room = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(room))
    for call in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0)):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    forbid(list(DENIED[os.uname().machine].values()))
    os.execvp(sys.argv[1], sys.argv[1:])
