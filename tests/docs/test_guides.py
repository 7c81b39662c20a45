"""Every guide's commands run as written: all `sh` blocks of a guide as one script, in a scratch checkout.

A `text` block after a `sh` block is what its commands print. Numbers may differ, the lines and their words may not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from gavotte.cli.verbs import app

TREE = Path(__file__).parents[2]
GUIDES = [TREE / "docs" / "tutorial.md", *sorted((TREE / "docs" / "guides").glob("*.md"))]
SHELL = re.compile(r"^```sh\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[0-9][0-9.,]*(?: ?(?:[kMG]?(?:bit/s|B)|[kMG]|m?s|%)(?!\w))?")
"""A number and its unit."""
DIVIDER = "\x1e"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS = {"launch": "mpirun", "collectives": "mpicc", "reach-your-hosts": "ssh"}
"""Programs that a guide's reader has installed."""
WITHOUT_LAB = ("reach-your-hosts", "profile")
LIMIT_S = 600


def scripts(guide: Path) -> list[list[str]]:
    """Return the commands, then the Python code that runs alone."""
    text = guide.read_text("utf-8")
    python = [code for code in PYTHON.findall(text) if "comm" not in code]
    commands = [f"{commands}printf '\\036'\n" for commands, _ in SHELL.findall(text)]
    return [
        ["bash", "-euo", "pipefail", "-c", "\n".join(["exec 2>&1", *commands])],
        *([sys.executable, "-c", code] for code in python),
    ]


def masked(text: str) -> list[str]:
    """Return the lines of an output with all numbers and their units as `#`, and one blank between words."""
    return [" ".join(NUMBER.sub("#", line).split()) for line in text.splitlines()]


def unlike(shown: str, message: str) -> list[str]:
    """Return the lines of a page that a command did not print, in their order; `...` stands for any lines."""
    rest = iter(masked(message))
    return [line for line in masked(shown) if line != "..." and line not in rest]


COMMAND = re.compile(r"^ *(?:\$ )?gavotte (.+)$", re.MULTILINE)
"""Commands also where a page only shows them: next to others' set-up, or for hosts that other readers lack."""
PAGES = [TREE / "README.md", *sorted((TREE / "docs").rglob("*.md"))]


def known(command: Any, words: list[str]) -> str:
    """Return the first word of a command line that is not a verb or option; empty if all are."""
    options = {"--help", "-v", "-vv", "--verbose", "--version"}
    while below := getattr(command, "commands", None):
        options |= {name for option in command.params for name in option.opts}
        if not words or (words[0] not in below and getattr(command, "invoke_without_command", False)):
            break
        if words[0] in options:
            words = words[1:]
            continue
        if words[0] not in below:
            return words[0]
        command, words = below[words[0]], words[1:]
    options |= {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    given = words[: words.index("--")] if "--" in words else words
    return next((word for word in given if word.startswith("-") and word.partition("=")[0] not in options), "")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TREE)))
def test_every_command_shown_has_verbs_and_options_that_there_are(page: Path) -> None:
    command = typer.main.get_command(app)
    joined = page.read_text("utf-8").replace("\\\n", " ")
    for line in COMMAND.findall(joined):
        shown = re.split(r" {3,}| [|>&]|`|;", line)[0]
        assert known(command, shown.replace("'", " ").replace('"', " ").split()) == "", line


def test_an_output_is_compared_but_for_its_numbers() -> None:
    message = "a to b: 12.5 Mbit/s\nnoise\n90 of 90 paths in 0.4 s\n"
    assert unlike("a to b:   980 kbit/s\n...\n8 of 9 paths in 13 ms\n", message) == []
    assert unlike("90 of 90 paths in 0.4 s\na to b: 1 Mbit/s\n", message) == ["a to b: #"]
    assert unlike("a to c: 12.5 Mbit/s\n", message) == ["a to c: #"]


def test_every_step_of_the_tutorial_has_an_output() -> None:
    assert [commands for commands, shown in SHELL.findall(GUIDES[0].read_text("utf-8")) if not shown] == []


def test_every_guide_has_commands() -> None:
    assert [guide.stem for guide in GUIDES if not SHELL.search(guide.read_text("utf-8"))] == []


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(
    "guide",
    [pytest.param(each, marks=() if each.stem in WITHOUT_LAB else pytest.mark.lab, id=each.stem) for each in GUIDES],
)
def test_a_guides_commands_run_as_written(guide: Path, tmp_path: Path, runtime: Path) -> None:
    needed = NEEDS.get(guide.stem)
    if needed is not None and shutil.which(needed) is None:
        pytest.skip(f"{needed} is not installed")
    for folder in ("python", "examples"):
        (tmp_path / folder).symlink_to(TREE / folder)
    (runtime / guide.stem).mkdir(mode=0o700, exist_ok=True)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GAVOTTE_RUNTIME_DIR": str(runtime / guide.stem),
    }
    try:
        printed = []
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
            assert done.returncode == 0, done.stdout + done.stderr
            printed.append(done.stdout)
        steps = zip(SHELL.findall(guide.read_text("utf-8")), printed[0].split(DIVIDER), strict=False)
        assert [line for (_, shown), message in steps for line in unlike(shown, message)] == []
    finally:
        subprocess.run([Path(sys.executable).with_name("gavotte"), "lab", "down"], env=environment, capture_output=True)
