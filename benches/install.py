"""Installs Gavotte's wheel and other tools of its kind, each into an empty environment, and takes the time of a first use.

    make bench-install [ARGS="--rounds 3"]

Needs the wheel of `make dist` in dist/. Downloads count: nothing is cached between rounds, and all tools take turns. The
first use is the shortest useful command that needs no hosts: Gavotte places six tasks on eight hosts, MPI's Python
module starts, Ray starts on this machine, and iperf3 measures loopback for 1 s. Skyplane only prints its version.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.machine import machine

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
PYTHON = next((each for each in ("/usr/bin/python3", sys.executable) if Path(each).exists()), sys.executable)
LIMIT_S = 900.0
PLACED = """
import numpy as np
from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network, write_network
rates = np.full((8, 8), 1e8)
rates[:4, :4] = rates[4:, 4:] = 1e9
sizes = np.random.default_rng(0).integers(1, 10**8, (6, 6))
np.fill_diagonal(sizes, 0)
write_network("n.network.json", Network.from_numpy([f"h{i}" for i in range(8)], rates))
write_app("a.app.toml", App.from_numpy("first", sizes))
"""
RAY = "import ray; ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False); ray.get(ray.put(1))"


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        name: its name.
        install: installs it below a folder.
        use: returns the command of a first use, with the folder in which it runs.
    """

    name: str
    install: Callable[[Path], None]
    use: Callable[[Path], Sequence[str | Path]]


@dataclass(frozen=True)
class Result:
    """One installation: seconds to install, bytes of the folder, and seconds and CPU seconds of the first use."""

    install_s: float
    size_bytes: int
    use_s: float
    use_cpu_s: float


def run(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a program; end with its last words if it fails."""
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    if done.returncode:
        sys.exit(f"install: {words[0]} failed: {done.stderr.strip()[-400:]}")


def by_pip(*packages: str | Path) -> Callable[[Path], None]:
    """Return what installs packages of PyPI, or a wheel, into an environment of their own."""

    def install(folder: Path) -> None:
        run(UV, "venv", "--quiet", "--python", PYTHON, folder / "env")
        words = ("pip", "install", "--quiet", "--no-cache", "--compile-bytecode", "--link-mode", "copy")
        run(UV, *words, "--python", folder / "env" / "bin" / "python", *packages)

    return install


def by_apt(package: str) -> Callable[[Path], None]:
    """Return what unpacks a package of Debian with all that it needs."""

    def install(folder: Path) -> None:
        sys.path.insert(0, str(ROOT / "tools"))
        from apt_folder import AptFolder  # type: ignore[import-not-found]

        with tempfile.TemporaryDirectory() as lists:
            apt = AptFolder(Path(lists), "amd64" if os.uname().machine == "x86_64" else "arm64")
            apt.unpack(apt.needs(package), folder / "env")

    return install


def first_placement(folder: Path) -> Sequence[str | Path]:
    """Return the command that places six tasks on eight hosts."""
    run(folder / "env" / "bin" / "python", "-c", PLACED, cwd=folder)
    return [folder / "env" / "bin" / "gavotte", "place", "n.network.json", "a.app.toml", "--time-limit", "1"]


def by_python(code: str) -> Callable[[Path], Sequence[str | Path]]:
    """Return what returns the command that runs Python code."""
    return lambda folder: [folder / "env" / "bin" / "python", "-c", code]


def loopback(folder: Path) -> Sequence[str | Path]:
    """Return the command that measures loopback."""
    root = folder / "env" / "usr"
    program, libraries = root / "bin" / "iperf3", root / "lib" / f"{os.uname().machine}-linux-gnu"
    ours = f"LD_LIBRARY_PATH={libraries} timeout 10 {program} -p 5999"
    script = f"{ours} -s -1 >/dev/null & sleep 0.5; {ours} -c 127.0.0.1 -t 1; wait"
    return ["sh", "-c", script]


def tools(wheel: Path) -> list[Tool]:
    """Return the tools that take turns."""
    return [
        Tool("gavotte (wheel)", by_pip(wheel), first_placement),
        Tool("iperf3 (Debian)", by_apt("iperf3"), loopback),
        Tool("mpi4py with MPICH", by_pip("mpi4py", "mpich"), by_python("from mpi4py import MPI; MPI.Get_version()")),
        Tool("skyplane", by_pip("skyplane"), lambda folder: [folder / "env" / "bin" / "skyplane", "--help"]),
        Tool("ray", by_pip("ray"), by_python(RAY)),
    ]


def tried(tool: Tool) -> Result | str:
    """Install a tool and use it once. Return the reason if that fails."""
    with tempfile.TemporaryDirectory(prefix="gavotte-install-") as made:
        folder = Path(made)
        begin_s = time.monotonic()
        try:
            tool.install(folder)
            install_s = time.monotonic() - begin_s
            size = sum(each.lstat().st_size for each in (folder / "env").rglob("*") if each.is_file())
            words = [str(word) for word in tool.use(folder)]
        except SystemExit as failed:
            return str(failed)
        before, begin_s = os.times(), time.monotonic()
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        after, use_s = os.times(), time.monotonic() - begin_s
        if done.returncode:
            return f"first use: {(done.stderr or done.stdout).strip()[-200:]}"
        cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
        return Result(install_s, size, use_s, cpu_s)


def main() -> None:
    """Print a row for each tool, with medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="installations of each tool (default: 3)")
    asked = parser.parse_args()
    wheels = sorted((ROOT / "dist").glob(f"gavotte-*_{os.uname().machine}.whl"))
    if not wheels:
        sys.exit("install: dist/ has no wheel; run `make dist` first")
    if shutil.which("apt-get") is None:
        sys.exit("install: needs apt-get")
    results: dict[str, list[Result]] = {}
    problems: dict[str, str] = {}
    for number in range(asked.rounds):
        for tool in tools(wheels[-1]):
            if tool.name in problems:
                continue
            print(f"round {number + 1}: {tool.name}", file=sys.stderr, flush=True)
            result = tried(tool)
            if isinstance(result, str):
                problems[tool.name] = result
            else:
                results.setdefault(tool.name, []).append(result)
    print(f"{'tool':<22} {'rounds':>6} {'install':>9} {'unpacked':>9} {'first use':>9} {'its CPU':>8}")
    for name, each in results.items():
        install, size, use, cpu = (
            statistics.median(getattr(one, field) for one in each)
            for field in ("install_s", "size_bytes", "use_s", "use_cpu_s")
        )
        print(f"{name:<22} {len(each):>6} {install:>7.1f} s {size / 1e6:>6.0f} MB {use:>7.2f} s {cpu:>6.2f} s")
    for name, reason in problems.items():
        print(f"{name:<22} cannot be installed and used here: {' '.join(reason.split())[:200]}")
    print(f"medians of {asked.rounds} interleaved rounds, downloads included, Python {PYTHON}; {machine()}")


if __name__ == "__main__":
    main()
