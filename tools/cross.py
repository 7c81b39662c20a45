"""Build for arm64 on amd64, and run it.

Rust's libraries and a Python for arm64 are Debian's, unpacked into a folder and never installed. The linker
`aarch64-linux-gnu-gcc` and the emulator `qemu-aarch64-static` have to be installed.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from apt_folder import AptFolder

TARGET = "aarch64-unknown-linux-gnu"
LINKER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
PACKAGES = {LINKER: ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"], EMULATOR: ["qemu-user-static"]}
RUSTUP_S = 60
"""How long rustup may take before Debian's Rust is used: some networks have packages only."""


def missing() -> list[str]:
    """Return the packages that have to be installed first."""
    return [package for program, packages in PACKAGES.items() if shutil.which(program) is None for package in packages]


def environment(folder: Path, *, links: bool) -> dict[str, str]:
    """Return the variables with which cargo builds for arm64.

    Args:
        folder: where downloads are kept.
        links: whether to link with `LINKER`: the module of a wheel is linked by zig instead, for old C libraries.
    """
    variables = {f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_LINKER": LINKER} if links else {}
    if has_target("rustc") or added_by_rustup():
        return variables
    return variables | {"RUSTC": str(debian_rust(folder))}


def has_target(rustc: str | Path) -> bool:
    """Return whether a compiler has the libraries for arm64."""
    root = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    return (Path(root) / "lib" / "rustlib" / TARGET / "lib").is_dir()


@cache
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
        apt = AptFolder(folder / "apt", "amd64", "arm64")
        compiler = [each for each in apt.needs("rustc-web") if "rust" in each or each.startswith("libllvm")]
        apt.unpack([*compiler, "libstd-rust-web-dev:arm64"], root)
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
        apt = AptFolder(folder / "apt-arm64", "arm64")
        # Wheels of numpy and gRPC need the C++ library.
        apt.unpack(apt.needs("python3", "libstdc++6"), root)
        (root / "done").touch()
    (program,) = (root / "usr" / "bin").glob("python3.[0-9]*[0-9]")
    return [EMULATOR, "-L", str(root), str(program)]
