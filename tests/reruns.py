"""Counts the lab's tests that needed another try, and names them at the end of each session."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

COUNTS = Path(__file__).parents[1] / ".pytest_cache" / "reruns.json"
"""Test to [sessions, tries beyond the first], over all sessions since it was removed; see tools/flaky."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that ran again and why their first try failed."""
    if hasattr(terminalreporter.config, "workerinput"):
        return  # one of several processes, whose tests the first one counts
    again: list[pytest.TestReport] = terminalreporter.stats.get("rerun", [])
    tries = Counter(report.nodeid for report in again)
    ended = [report for key in ("passed", "failed") for report in terminalreporter.stats.get(key, [])]
    first_failures = {report.nodeid: report for report in reversed(again)}
    if first_failures:
        terminalreporter.section(f"{len(first_failures)} tests needed another try", yellow=True)
    for name, first in first_failures.items():
        terminalreporter.line(f"{name} ({tries[name]} more): {reason(first)}")
    counts: dict[str, list[int]] = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    for name in {
        report.nodeid for report in ended if report.when == "call" and "lab" in report.keywords
    } | first_failures.keys():
        sessions, more = counts.get(name, [0, 0])
        counts[name] = [sessions + 1, more + tries[name]]
    try:
        COUNTS.parent.mkdir(exist_ok=True)
        COUNTS.write_text(json.dumps(counts, indent=1, sort_keys=True))
    except OSError as error:  # a full disk must not hide the tests' results
        terminalreporter.line(f"{COUNTS}: {error.strerror}; these tries are not counted")


def reason(report: pytest.TestReport) -> str:
    """Return the line of a failure that names it."""
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return lines[0].removeprefix("E").strip() if lines else report.longreprtext.strip().rpartition("\n")[2]
