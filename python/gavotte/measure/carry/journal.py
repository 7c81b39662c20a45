"""Store the answers of a measurement while it runs, so that the next call can continue an interrupted one.

Answers are appended as they arrive, one JSON line each, to a file next to the History that will be written. The file is
removed when the History is written.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.soundness import MOST, MOST_BPS, MOST_MTU_BYTES, MOST_S
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.files.reading import read_bytes
from gavotte.formats.history import BY_TCP, MAX_HOPS, MOST_CONNECTIONS, MOST_PACKETS, VERDICTS
from gavotte.measure.adapt.results import PathResult, Results
from gavotte.measure.plan.methods.method import Reading

logger = logging.getLogger(__name__)

FORMAT = "gavotte/measuring/1"

MAX_TIME_S = 1e11
"""Largest Unix time, some thousand years ahead."""


def journal_path(output: Path) -> Path:
    """Return the path of a History's journal, which exists until the History is written."""
    return output.with_name(output.name + ".partial")


class Journal(AbstractContextManager["Journal"]):
    """Open file that keeps the answers of a running measurement, so that an interrupted one can be resumed.

    Leaving the `with` block without an error removes the file.

    Attributes:
        run_id: the run that holds, or held, the agents; None = no run has.
    """

    def __init__(self, path: Path, results: Results, *, seed: int, resume: bool) -> None:
        """Open a journal, or continue one.

        Args:
            path: the file.
            results: filled with the file's answers when resuming.
            seed: must be the same as before.
            resume: whether to continue an existing file; otherwise it is an error.

        Raises:
            GavotteError: when a journal exists without `resume`, or it is of another measurement.
        """
        self._path = path
        self.run_id: str | None = None
        self._answers = 0
        head = {
            "format": FORMAT,
            "hosts": results.inventory.names,
            "method": results.method,
            "count": results.count,
            "seed": seed,
        }
        if path.exists() and not resume:
            raise GavotteError(
                f"{path} holds an interrupted measurement", hint="continue it with --resume, or remove the file"
            )
        try:
            self._stream: IO[str] = path.open("a", encoding="utf-8")
            self._lock()
            if resume:
                try:
                    self.run_id = _replay(path, head, results)
                except BaseException:
                    self._stream.close()
                    raise
                self._answers = len(results.paths)
            if path.stat().st_size == 0:
                self._write(head)
        except OSError as error:
            raise FormatError(str(path), "", f"cannot be written: {error.strerror}", "check the folder") from None

    def _lock(self) -> None:
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._stream.close()
            raise GavotteError(f"{self._path}: its measurement is under way", hint="wait until it has ended") from None

    def hold(self, run_id: str) -> None:
        """Append the run that holds the agents. If it is killed, they can be taken over under this name."""
        if run_id != self.run_id:
            self.run_id = run_id
            self._write({"run": run_id})

    def add(self, snapshot: int, source: int, target: int, result: PathResult) -> None:
        """Append one answer."""
        reading = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(result.reading).items()}
        if reading["high_bps"] == math.inf:
            reading["high_bps"] = None
        entry = {"at": [snapshot, source, target], "rtt_s": result.rtt_s, "hops": result.hops, "reading": reading}
        if math.isfinite(result.idle_s):
            entry["idle_s"] = result.idle_s
        if result.mtu_bytes:
            entry["mtu_bytes"] = result.mtu_bytes
        self._write(entry)
        self._answers += 1

    def begin(self, snapshot: int, time_s: float) -> None:
        """Append the start of a snapshot."""
        self._write({"snapshot": snapshot, "time_s": time_s})

    def _write(self, entry: dict[str, Any]) -> None:
        try:
            self._stream.write(json.dumps(entry) + "\n")
            self._stream.flush()
        except OSError as error:
            raise FormatError(str(self._path), "", f"cannot be written: {error.strerror}", "free some space") from None

    def close(self) -> None:
        """Close the file and keep it."""
        # A line that a full disk refused, which was reported, is written again here.
        try:
            self._stream.close()
        except OSError as error:
            logger.debug("%s: %s", self._path, error)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()
        # Without an answer there is nothing to continue, as when another run held the agents.
        if kind is None or not self._answers:
            self._path.unlink(missing_ok=True)


def _replay(path: Path, head: dict[str, Any], results: Results) -> str | None:
    """Read a journal's answers, and remove an incomplete last line. Return the run, if the journal names it."""
    run_id: str | None = None
    try:
        text = read_bytes(path)
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(path, len(whole))
        lines = whole.decode("utf-8", errors="replace").splitlines()
    except OSError as error:
        raise FormatError(str(path), "", f"cannot be read: {error.strerror}", "remove it") from None
    for number, line in enumerate(lines):
        try:
            entry = json.loads(line)
            if number == 0:
                if entry != head:
                    raise GavotteError(
                        f"{path} is from another measurement",
                        hint="use the same hosts, method, count and seed, or remove it",
                    )
            elif "run" in entry:
                run_id = str(entry["run"])
            elif "snapshot" in entry:
                snapshot = _whole(entry["snapshot"], head["count"] - 1)
                # Times of a History are in order.
                time_s = _real(entry["time_s"], MAX_TIME_S)
                if time_s < max(results.times_s.values(), default=0.0):
                    raise ValueError
                results.times_s[snapshot] = time_s
            else:
                snapshot, source, target = entry["at"]
                size = len(head["hosts"])
                if snapshot not in results.times_s or _whole(source, size - 1) == _whole(target, size - 1):
                    raise ValueError
                results.add(snapshot, source, target, _result(entry))
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            raise FormatError(str(path), f"line {number + 1}", "is damaged", "remove the file") from None
    return run_id


def _result(entry: Mapping[str, Any]) -> PathResult:
    """Return an answer, if all of it is within what an agent may report, so that a History with it can be read.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: if not.
    """
    reading: dict[str, Any] = {key: _of_reading(key, value) for key, value in entry["reading"].items()}
    if reading["verdict"] not in VERDICTS or reading.get("by_tcp", "") not in BY_TCP:
        raise ValueError
    return PathResult(
        Reading(**reading),
        _real(entry["rtt_s"], MOST_S),
        _whole(entry["hops"], MAX_HOPS),
        idle_s=_real(entry["idle_s"], MOST_S) if "idle_s" in entry else math.nan,
        mtu_bytes=_whole(entry.get("mtu_bytes", 0), MOST_MTU_BYTES),
    )


def _of_reading(key: str, value: Any) -> Any:
    kind = {"verdict": str, "refusal": str, "by_tcp": str, "policed": bool}.get(key)
    if kind is not None:
        if type(value) is not kind:
            raise ValueError
        return value
    if key == "connections":
        return _whole(value, MOST_CONNECTIONS)
    if key in ("unqueued", "unqueued_lost"):
        return _whole(value, MOST_PACKETS)
    if key == "failure":
        return _whole(value, max(pb.Failure.values()))
    if value is None:
        return math.nan
    return _real(value, MOST_BPS if key.endswith("_bps") else MOST_S if key.endswith("_s") else MOST)


def _real(value: Any, most: float) -> float:
    # NaN is in no range, and `true` is no number.
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise ValueError
    return float(value)


def _whole(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError
    return value
