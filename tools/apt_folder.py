"""Debian's packages, unpacked into folders by an ordinary user and never installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class AptFolder:
    """Debian's packages for some kinds of machines, with lists of their own: the machine's settings stay as they are.

    A failure ends the program with apt's own last words.

    Args:
        folder: its lists and packages.
        architectures: the kinds of machines, the main one first.
    """

    def __init__(self, folder: Path, *architectures: str) -> None:
        self._folder = folder
        for each in ("lists/partial", "cache/archives/partial"):
            (folder / each).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        options = {
            "APT::Architecture": architectures[0],
            "Dir::State": str(folder),
            "Dir::State::lists": str(folder / "lists"),
            "Dir::State::status": str(folder / "status"),
            "Dir::Cache": str(folder / "cache"),
            "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "false",
        }
        self._options = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        self._options += [word for each in architectures for word in ("-o", f"APT::Architectures::={each}")]
        self._run("apt-get", "update", "-q")

    def needs(self, *packages: str) -> list[str]:
        """Return these packages and all that they need."""
        text = self._run("apt-get", "install", "--simulate", "-q", *packages)
        return [line.split()[1] for line in text.splitlines() if line.startswith("Inst ")]

    def unpack(self, packages: list[str], root: Path) -> None:
        """Download packages and unpack them into a folder; no script of theirs runs."""
        archives = self._folder / "cache" / "archives"
        self._run("apt-get", "download", "-q", *packages, cwd=archives)
        root.mkdir(parents=True, exist_ok=True)
        for archive in sorted(archives.glob("*.deb")):
            self._run("dpkg", "-x", str(archive), str(root))
            archive.unlink()

    def _run(self, program: str, *words: str, cwd: Path | None = None) -> str:
        own = [] if program == "dpkg" else self._options
        line = [program, *own, *words]
        result = subprocess.run(line, cwd=cwd, capture_output=True, text=True, check=False, env=os.environ)
        if result.returncode:
            sys.exit(f"{program} failed: {result.stderr.strip()[-500:]}")
        return result.stdout
