"""Build the preloaded library with the MPI's own compiler, whose binary interface the library must have."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from gavotte.errors import GavotteError, UnsupportedError
from gavotte.formats.files.reading import check_folder, is_device, write_bytes

DEADLINE_S = 120.0


def build_shim(output: str | Path, *, mpicc: str = "mpicc", counting: bool = False) -> None:
    """Compile the library that MPI programs preload, `shim.c` or `counting.c`, for one MPI library.

    Args:
        output: the shared library to write, whole or not at all.
        mpicc: the MPI's C compiler and its options, as `mpicc.mpich`; the library fits this MPI alone.
        counting: build the library that counts the bytes between ranks, instead of the one that runs collectives along
            trees.

    Raises:
        UnsupportedError: when the compiler is not installed.
        GavotteError: when the compiler fails.
    """
    target = Path(output).absolute()
    check_folder(target)
    with (
        resources.as_file(resources.files("gavotte.collective") / ("counting.c" if counting else "shim.c")) as source,
        tempfile.TemporaryDirectory(prefix=".shim-", dir=None if is_device(target) else target.parent) as aside,
    ):
        made = Path(aside) / target.name
        try:
            # A preloaded library may have its variables of threads at fixed places, which saves a call for each access.
            flags = ["-O2", "-shared", "-fPIC", "-ftls-model=initial-exec"]
            line = [*shlex.split(mpicc), *flags, "-o", str(made), str(source), "-lm", "-ldl"]
            done = subprocess.run(line, capture_output=True, text=True, timeout=DEADLINE_S, env={**os.environ})
        except (FileNotFoundError, PermissionError, ValueError):
            raise UnsupportedError(
                f"`{mpicc}` is not installed", hint="install the MPI's development package, or use --mpicc"
            ) from None
        except subprocess.TimeoutExpired:
            raise GavotteError(f"`{mpicc}` did not finish within {DEADLINE_S:.0f} s", hint="try it by hand") from None
        if done.returncode:
            first_line = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise GavotteError(f"`{mpicc}` failed: {first_line}", hint="is it the C compiler of an MPI library?")
        # A rename over a device would replace the system's own file.
        if is_device(target):
            write_bytes(target, made.read_bytes())
        else:
            made.replace(target)
