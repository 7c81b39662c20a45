"""The first build of `make demo` has the packages of a full one, in the same versions."""

from __future__ import annotations

import re
from pathlib import Path

import tomli

ROOT = Path(__file__).resolve().parents[2]
PINNED = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)


def versions(lock: str) -> dict[str, str]:
    return dict(PINNED.findall((ROOT / lock).read_text()))


def test_demo_lock_has_the_versions_of_the_full_lock() -> None:
    full, demo = versions("requirements.lock"), versions("tools/demo.lock")
    assert demo
    assert demo.items() <= full.items()


def test_demo_lock_has_every_package_that_is_no_extra() -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    names = {re.split(r"[<>=]", each)[0] for each in wanted}
    assert names <= versions("tools/demo.lock").keys()
