"""Profiles in one call for most tests: the App, and the report by attribute."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gavotte.formats.app import App
from gavotte.profile import profile


def from_pcap(
    path: str | Path | list[Path], tasks: dict[str, str] | None = None, **options: Any
) -> tuple[App, SimpleNamespace]:
    profiled = profile("pcap", path, tasks, **options)
    return profiled.app, SimpleNamespace(**profiled.report)
