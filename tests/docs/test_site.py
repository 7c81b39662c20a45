"""The site: builds without a warning, and has an entry for each public name and each verb."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.front_doors import ROOT, defined, documented, exported

from gavotte.cli.verbs import app

pytestmark = [pytest.mark.slow, pytest.mark.rare, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "-d",
        folder / "cache",
    ]
    built = subprocess.run([*command, ROOT / "docs", folder / "html"], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "html"


def test_each_public_name_has_an_entry(site: Path) -> None:
    missing = []
    for module in documented():
        page = (site / "reference" / "python" / f"{module}.html").read_text("utf-8")
        entries = set(re.findall(r'id="([\w.]+)"', page))
        missing += [
            f"{module}.{name}"
            for name, home in exported(module)
            if defined(home, name) and f"{module}.{name}" not in entries
        ]
    assert missing == []


def test_each_verb_has_an_entry(site: Path) -> None:
    page = re.sub(r"<[^>]+>", "", (site / "reference" / "cli.html").read_text("utf-8"))
    verbs = getattr(typer.main.get_command(app), "commands")  # noqa: B009 - typer's type has no such attribute
    assert [verb for verb in verbs if f"gavotte {verb}" not in page] == []
