"""Build for arm64 on amd64, and run it.

Rust's libraries and a Python for arm64 are Debian's, unpacked into a folder and never installed. The linker
`aarch64-linux-gnu-gcc` and the emulator `qemu-aarch64-static` have to be installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TARGET = "aarch64-unknown-linux-gnu"
LINKER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
PACKAGES = {LINKER: ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"], EMULATOR: ["qemu-user-static"]}
RUSTUP_S = 60
"""How long rustup may take before Debian's Rust is used: some networks have packages only."""


def missing() -> list[str]:
    """Return the packages that have to be installed first."""
    return [package for program, packages in PACKAGES.items() if shutil.which(program) is None for package in packages]


def environment(folder: Path) -> dict[str, str]:
    """Return the variables with which cargo builds for arm64.

    Args:
        folder: where downloads are kept.
    """
    variables = {f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_LINKER": LINKER}
    if has_target("rustc") or added_by_rustup():
        return variables
    return variables | {"RUSTC": str(debian_rust(folder))}


def has_target(rustc: str | Path) -> bool:
    """Return whether a compiler has the libraries for arm64."""
    root = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    return (Path(root) / "lib" / "rustlib" / TARGET / "lib").is_dir()


def added_by_rustup() -> bool:
    """Return whether rustup could add them."""
    if shutil.which("rustup") is None:
        return False
    try:
        result = subprocess.run(["rustup", "target", "add", TARGET], capture_output=True, check=False, timeout=RUSTUP_S)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


def debian_rust(folder: Path) -> Path:
    """Return Debian's compiler with the libraries for both machines, unpacked below a folder."""
    root = folder / "rust"
    rustc = root / "rustc"
    if not rustc.exists():
        apt = Apt(folder / "apt", "amd64", "arm64")
        names = ["rustc-web", "libstd-rust-web-dev:amd64", "libstd-rust-web-dev:arm64", "libllvm22"]
        names += [each for each in apt.needs("libstd-rust-web-dev") if each.startswith("libstd-rust-web-")]
        apt.unpack(names, root)
        libraries = root / "usr" / "lib" / "x86_64-linux-gnu"
        new = rustc.with_suffix(".new")
        new.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {root}/usr/bin/rustc "$@"\n')
        new.chmod(0o755)
        new.replace(rustc)
    return rustc


def python(folder: Path) -> list[str]:
    """Return the command line of a Python for arm64, unpacked below a folder, in an emulator."""
    root = folder / "python"
    if not (root / "done").exists():
        apt = Apt(folder / "apt-arm64", "arm64")
        # Wheels of numpy and gRPC need the C++ library.
        apt.unpack([*apt.needs("python3", deep=True), "libstdc++6"], root)
        (root / "done").touch()
    (program,) = (root / "usr" / "bin").glob("python3.[0-9]*[0-9]")
    return [EMULATOR, "-L", str(root), str(program)]


class Apt:
    """Packages of other kinds of machines, with lists of its own: the machine's settings stay as they are.

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

    def needs(self, package: str, *, deep: bool = False) -> list[str]:
        """Return what a package needs; deep = also what these need, and the package itself."""
        how = ["--recurse"] if deep else []
        kinds = ["--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"]
        text = self._run("apt-cache", "depends", *how, *kinds, package)
        names = [line.strip().removeprefix("Depends: ").removeprefix("PreDepends: ") for line in text.splitlines()]
        return [name for name in dict.fromkeys(names) if not name.startswith("<") and "|" not in name]

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
            sys.exit(f"cross: {program} failed: {result.stderr.strip()[-500:]}")
        return result.stdout
