"""The agent's program as packages need it: its version, and the architecture for which it was built."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "gavotte-agent"

ARCHITECTURES = {0x3E: "amd64", 0xB7: "arm64"}
"""Names of architectures as Debian and OCI spell them, by the number in a program's header."""


def version() -> str:
    """Return the workspace's version."""
    lines = (ROOT / "Cargo.toml").read_text().splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("version = "))


def architecture(program: bytes, name: object) -> str:
    """Return the architecture of a program; end if it is none for a known one.

    Args:
        program: its content, or the beginning of it.
        name: what the error calls it.
    """
    machine = int.from_bytes(program[18:20], "little")
    if program[:4] != b"\x7fELF" or machine not in ARCHITECTURES:
        sys.exit(f"{Path(sys.argv[0]).name}: {name}: not a program for {' or '.join(ARCHITECTURES.values())}")
    return ARCHITECTURES[machine]
