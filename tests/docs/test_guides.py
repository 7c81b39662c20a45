"""Every guide's commands run as written: all `sh` blocks of a guide as one script, in a scratch checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
GUIDES = sorted((TREE / "docs" / "guides").glob("*.md"))
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS = {"launch": "mpirun", "collectives": "mpicc", "reach-your-hosts": "ssh"}
"""What a guide's reader has installed."""
WITHOUT_LAB = ("reach-your-hosts",)
LIMIT_S = 600


def scripts(guide: Path) -> list[list[str]]:
    """The commands, then the Python code that stands on its own."""
    text = guide.read_text("utf-8")
    python = [code for code in PYTHON.findall(text) if "comm" not in code]
    return [
        ["bash", "-euo", "pipefail", "-c", "\n".join(SHELL.findall(text))],
        *([sys.executable, "-c", code] for code in python),
    ]


def test_every_guide_has_commands() -> None:
    assert [guide.stem for guide in GUIDES if not SHELL.search(guide.read_text("utf-8"))] == []


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(
    "guide",
    [pytest.param(each, marks=() if each.stem in WITHOUT_LAB else pytest.mark.lab, id=each.stem) for each in GUIDES],
)
def test_a_guides_commands_run_as_written(guide: Path, tmp_path: Path, runtime: Path) -> None:
    needed = NEEDS.get(guide.stem)
    if needed is not None and shutil.which(needed) is None:
        pytest.skip(f"{needed} is not installed")
    (tmp_path / "python").symlink_to(TREE / "python")
    (runtime / guide.stem).mkdir(mode=0o700, exist_ok=True)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GAVOTTE_RUNTIME_DIR": str(runtime / guide.stem),
    }
    try:
        for command in scripts(guide):
            done = subprocess.run(
                command,
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    finally:
        subprocess.run([Path(sys.executable).with_name("gavotte"), "lab", "down"], env=environment, capture_output=True)
