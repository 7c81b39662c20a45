"""One version everywhere, and an entry in the changelog for it."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from tests.shell import gavotte

from gavotte import _core

ROOT = Path(__file__).parents[1]


def test_the_version_is_one_and_has_its_changes_told(tmp_path: Path) -> None:
    installed = version("gavotte")
    assert _core.version() == installed
    assert gavotte("--version", cwd=tmp_path).stdout.startswith(f"gavotte {installed} ")
    releases = re.findall(r"^## (\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == installed
    assert f"\nversion: {installed}\n" in (ROOT / "CITATION.cff").read_text()
