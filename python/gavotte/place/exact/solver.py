"""Runs solvers in child processes: OR-tools and HiGHS clash in one process, and neither stays in ours."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from gavotte.errors import GavotteError

_GRACE_S = 30.0
"""What a solver may take beyond its own limit, to start and to end, before it is killed."""


class Solver:
    """A child process that answers one request at a time.

    Args:
        script: a file beside this one.
    """

    def __init__(self, script: str) -> None:
        self._script = Path(__file__).with_name(script)
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        # -I: nothing of the caller's folder or environment can shadow the solver's modules.
        command = [sys.executable, "-I", str(self._script)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        child = self._child
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()

    def ask(self, request: dict[str, object], limit_s: float) -> dict[str, Any]:
        """Sends a request and waits for its answer.

        Args:
            request: what the script takes.
            limit_s: the solver's own limit; it is killed some time after.

        Raises:
            GavotteError: when the child dies or does not end.
        """
        child = self._child
        if child is None or child.stdin is None or child.stdout is None:
            raise RuntimeError("the solver is not running: use it as a context manager")
        deadline_s = time.monotonic() + limit_s + _GRACE_S
        answer = b""
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([child.stdout], [], [], max(deadline_s - time.monotonic(), 0.0))
            if not ready:
                raise GavotteError(f"the solver did not end within {limit_s:.3g} s", hint="use --method search")
            piece = os.read(child.stdout.fileno(), 1 << 20)
            if not piece:
                raise GavotteError(f"the solver died: {self._last_words(child)}", hint="use --method search")
            answer += piece
        return dict(json.loads(answer))

    @staticmethod
    def _last_words(child: subprocess.Popen[bytes]) -> str:
        child.wait()
        lines = child.stderr.read().decode(errors="replace").split("\n") if child.stderr is not None else []
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else f"status {child.returncode}"
