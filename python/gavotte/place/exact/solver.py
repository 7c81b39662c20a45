"""Solvers in child processes: OR-tools and HiGHS clash in one process, and neither is loaded into the parent."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gavotte.errors import GavotteError
from gavotte.place.exact.installed import solver_lacking

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

_GRACE_S = 30.0
"""Seconds that a solver may take beyond its own limit, to start and to end, before it is killed."""

_STRICT_GRACE_S = 0.3
"""The same under `strict`, where the clock counts more than the answer."""

_TICK_S = 0.2


class Solver:
    """A solver in a child process, which answers one request at a time.

    Args:
        script: name of a file in this file's folder.

    Raises:
        UnsupportedError: when the solver is not installed.
    """

    def __init__(self, script: str) -> None:
        missing = solver_lacking(script)
        if missing is not None:
            raise missing
        self._script = Path(__file__).with_name(script)
        self._child: subprocess.Popen[bytes] | None = None
        self._answer = b""

    def __enter__(self) -> Self:
        # -I: nothing of the caller's folder or environment can shadow the solver's modules.
        command = [sys.executable, "-I", str(self._script)]
        logger.debug("starts %s", self._script.name)
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
        """Send a request and wait for its answer.

        Args:
            request: the request, as the script expects it.
            limit_s: the solver's own limit, in seconds; the solver is killed some time after.

        Raises:
            GavotteError: when the child dies or does not end.
        """
        self.send(request)
        deadline_s = time.monotonic() + limit_s + _GRACE_S
        while (answer := self.receive()) is None:
            wait([self], deadline_s)
        return answer

    def send(self, request: dict[str, object]) -> None:
        """Send a request; `receive` returns the answer once it has arrived."""
        child = self._running()
        self._answer = b""
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
            child.stdin.flush()  # type: ignore[union-attr]

    def receive(self) -> dict[str, Any] | None:
        """Return the answer to the last request; None while it is incomplete.

        Raises:
            GavotteError: when the child dies.
        """
        child = self._running()
        while not self._answer.endswith(b"\n"):
            ready, _, _ = select.select([self], [], [], 0.0)
            if not ready:
                return None
            piece = os.read(self.fileno(), 1 << 20)
            if not piece:
                raise GavotteError(f"the solver died: {self._last_words(child)}", hint="use --method search")
            self._answer += piece
        return dict(json.loads(self._answer))

    def fileno(self) -> int:
        """Return the file descriptor of the child's stdout, for `select`."""
        return self._running().stdout.fileno()  # type: ignore[union-attr]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise RuntimeError("the solver is not running: use it as a context manager")
        return self._child

    @staticmethod
    def _last_words(child: subprocess.Popen[bytes]) -> str:
        child.wait()
        lines = child.stderr.read().decode(errors="replace").split("\n") if child.stderr is not None else []
        words = [line.strip() for line in lines if line.strip()]
        return words[-1] if words else f"status {child.returncode}"


def wait(solvers: Sequence[Solver], deadline_s: float) -> None:
    """Wait until one of the solvers has sent something to receive.

    Raises:
        GavotteError: when none has by `deadline_s` of the monotonic clock.
    """
    ready, _, _ = select.select(solvers, [], [], max(deadline_s - time.monotonic(), 0.0))
    if not ready:
        raise GavotteError("the solver did not finish in time", hint="use --method search")


def race(
    script: str,
    requests: Sequence[dict[str, object]],
    limit_s: float,
    decides: Callable[[int, dict[str, Any]], bool],
    *,
    strict: bool = False,
    tick: Callable[[], object] = lambda: None,
) -> list[dict[str, Any] | None]:
    """Send each request to a child process of its own, all at once, and return their answers.

    Args:
        script: name of a file in this file's folder.
        requests: the requests, one for each child.
        limit_s: the solvers' own limit, seconds; they are killed some time after it.
        decides: whether an answer, given by its request's number and content, makes the others unnecessary.
        strict: kill the solvers soon after the limit, and do without their answers.
        tick: called several times a second.

    Returns:
        The answers; None for a request if another decided first, or time was up under `strict`.

    Raises:
        GavotteError: when a child dies or does not end.
    """
    answers: list[dict[str, Any] | None] = [None] * len(requests)
    with contextlib.ExitStack() as stack:
        solvers = [stack.enter_context(Solver(script)) for _ in requests]
        for solver, request in zip(solvers, requests, strict=True):
            solver.send(request)
        deadline_s = time.monotonic() + limit_s + (_STRICT_GRACE_S if strict else _GRACE_S)
        while open_ := [solver for solver, answer in zip(solvers, answers, strict=True) if answer is None]:
            tick()
            if not select.select(open_, [], [], _TICK_S)[0]:
                if time.monotonic() < deadline_s:
                    continue
                if strict:
                    break
                raise GavotteError("the solver did not finish in time", hint="use --method search")
            for number, solver in enumerate(solvers):
                if answers[number] is None:
                    answers[number] = answer = solver.receive()
                    if answer is not None and decides(number, answer):
                        return answers
    return answers
