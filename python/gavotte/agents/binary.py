"""The agent's binary: its path, architecture and checksum."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import UnsupportedError

AGENT = "gavotte-agent"
AGENT_VARIABLE = "GAVOTTE_AGENT"
"""Environment variable that names the agent's binary."""

_MACHINES = {
    0x03: "i686",
    0x15: "ppc64le",
    0x16: "s390x",
    0x28: "armv7l",
    0x3E: "x86_64",
    0xB7: "aarch64",
    0xF3: "riscv64",
}
"""Maps `e_machine` of an ELF file to the name that `uname -m` prints."""


@dataclass(frozen=True)
class Binary:
    """An agent that can be copied to hosts of one architecture.

    Attributes:
        path: the file.
        machine: architecture, as `uname -m` prints it.
        sha256: checksum of the content, in hex.
        content: the file's bytes.
    """

    path: str
    machine: str
    sha256: str
    content: bytes

    @property
    def file_name(self) -> str:
        """File name on a host; differs for each version and content."""
        return f"{AGENT}-{importlib.metadata.version('gavotte')}-{self.sha256[:16]}"


def agent_binary() -> str:
    """Find the agent: `$GAVOTTE_AGENT`, else the one next to this Python or from our wheel, else the one on the PATH.

    Raises:
        UnsupportedError: when no agent is found.
    """
    named = os.environ.get(AGENT_VARIABLE)
    sibling = Path(sys.executable).parent / AGENT
    program = shutil.which(named) if named else shutil.which(sibling) or _installed() or shutil.which(AGENT)
    if program is None:
        missing = f"{AGENT_VARIABLE}={named} is not a program" if named else f"`{AGENT}` is not installed"
        raise UnsupportedError(missing, hint=f"build it with `make setup`, or set {AGENT_VARIABLE} to its path")
    return str(Path(program).absolute())


def _installed() -> str | None:
    """Return the agent that our wheel has installed. `pip install --user` puts it in another folder than Python's."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("gavotte") or ():
            if file.name == AGENT and (program := shutil.which(file.locate())):
                return program
    return None


def agent_binaries() -> dict[str, Binary]:
    """Find the agents to copy to hosts, by architecture.

    These are `agent_binary` and, for other architectures, files named `gavotte-agent-MACHINE` next to it.

    Raises:
        UnsupportedError: when no agent is found, or a file is not a Linux program.
    """
    own = Path(agent_binary())
    binaries = {}
    for path in (*sorted(own.parent.glob(f"{AGENT}-*")), own):
        if path == own or path.name.removeprefix(f"{AGENT}-") in _MACHINES.values():
            binary = _read(str(path), path.stat().st_mtime_ns)
            binaries[binary.machine] = binary
    return binaries


@functools.lru_cache(maxsize=8)
def _read(path: str, _mtime_ns: int) -> Binary:
    content = Path(path).read_bytes()
    big = content[5:6] == b"\x02"
    machine = _MACHINES.get(int.from_bytes(content[18:20], "big" if big else "little"))
    if content[:4] != b"\x7fELF" or machine is None:
        raise UnsupportedError(f"`{path}` is not a Linux program", hint="build the agent with `make setup`")
    return Binary(path, machine, hashlib.sha256(content).hexdigest(), content)
