"""Every guide's commands run as written, each guide in a scratch checkout of its own, as a reader follows it.

All `sh` blocks of a guide are one script. A `text` block after a `sh` block is what its commands print. Numbers may
differ, the lines and their words may not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from tests.guides import BLOCK, block

from gavotte.cli.verbs import app
from gavotte.export.exporting import JOB_FORMATS, TOPOLOGY_FORMATS

TREE = Path(__file__).parents[2]
INDEX = TREE / "docs" / "index.md"
GUIDES = [
    TREE / "docs" / f"{page}.md" for page in re.findall(r"^(tutorial|guides/.+)$", INDEX.read_text(), re.MULTILINE)
]
"""The tutorial and the guides, in the order of the site."""
SHELL = re.compile(r"^```sh\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[0-9][0-9.,]*(?: ?(?:[kMG]?(?:bit/s|B)|[kMG]|m?s|%)(?!\w))?")
"""A number and its unit."""
PLURAL = re.compile(r"(# [a-z]{3,}?)s\b")
"""A noun whose number depends on the number before it."""
DIVIDER = "\x1e"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS = {"launch": "mpirun", "collectives": "mpicc", "reach-your-hosts": "ssh", "topograph": "curl"}
"""Programs that a guide's reader has installed."""
LIMIT_S = 600
FIRST = (
    "tutorial",
    "profile",
    "reach-your-hosts",
    "schedulers",
    "slurm",
    "kubernetes",
    "diktyo",
    "topograph",
    "ray",
    "placements",
)
"""Guides that `make test` follows; `make test-cases` follows all of them."""


@contextmanager
def checkout(folder: Path, runtime: Path) -> Iterator[dict[str, str]]:
    """Make a scratch checkout with a lab of its own; yield the variables of its reader's shell."""
    for name in ("python", "examples"):
        (folder / name).symlink_to(TREE / name)
    runtime.mkdir(mode=0o700)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GAVOTTE_RUNTIME_DIR": str(runtime),
    }
    try:
        yield environment
    finally:
        gavotte = Path(sys.executable).with_name("gavotte")
        subprocess.run([gavotte, "lab", "down"], env=environment, capture_output=True, check=False)
        shutil.rmtree(runtime, ignore_errors=True)


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
    return [" ".join(PLURAL.sub(r"\1", NUMBER.sub("#", line)).split()) for line in text.splitlines()]


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
    assert unlike("3 s with 1 task moved\n", "0 s with 2 tasks moved\n") == []


def test_every_step_of_the_tutorial_has_an_output() -> None:
    assert [commands for commands, shown in SHELL.findall(GUIDES[0].read_text("utf-8")) if not shown] == []


def test_every_guide_has_commands() -> None:
    assert [guide.stem for guide in GUIDES if not SHELL.search(guide.read_text("utf-8"))] == []


def test_every_guide_is_on_the_site() -> None:
    assert sorted(GUIDES[1:]) == sorted((TREE / "docs" / "guides").rglob("*.md"))


INDEX_OF_SCHEDULERS = (TREE / "docs" / "guides" / "schedulers.md").read_text("utf-8")
INTEGRATIONS = [
    TREE / "docs" / "guides" / page
    for page in re.findall(r"^\| \[[^]]+\]\(([^)]+)\) \| `", INDEX_OF_SCHEDULERS, re.MULTILINE)
]
"""Pages in the first table of the guide to schedulers."""
GUIDES_OF_SCHEDULERS = TREE / "docs" / "guides" / "schedulers"
OUTLINE = ("What you need", "Undo", "What .+ cannot express")
UNDO = re.compile(r"^#+ Undo\n\n(.*?)(?=^#+ |\Z)", re.DOTALL | re.MULTILINE)


def undo_of(page: Path) -> str:
    """Return the command in the section `Undo`, which must have one block with one command."""
    (section,) = UNDO.findall(page.read_text("utf-8"))
    (command,) = [str(fenced or indented).strip() for fenced, indented in BLOCK.findall(section)]
    assert "\n" not in command
    return command


@pytest.mark.parametrize("page", INTEGRATIONS, ids=lambda page: page.stem)
def test_an_integration_has_the_usual_outline_and_one_command_to_undo_it(page: Path) -> None:
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    at = [next(at for at, title in enumerate(titles) if re.fullmatch(part, title)) for part in OUTLINE]
    assert at == sorted(at), titles
    shown = undo_of(page).replace("|", r"\|")
    assert f"]({page.relative_to(TREE / 'docs' / 'guides')}) | `{shown}` |" in INDEX_OF_SCHEDULERS


@pytest.mark.parametrize(
    ("page", "name", "file"),
    [
        ("kubernetes", "topograph-labels", "labels.sh"),
        ("kueue", "kueue", "kueue.yaml"),
        ("volcano", "volcano", "hypernodes.yaml"),
        ("podgroups", "kubernetes-podgroup", "group.yaml"),
        ("ray", "ray", "ray-start.sh"),
    ],
)
def test_a_page_has_the_undo_of_its_format_which_tests_run_in_a_real_cluster(page: str, name: str, file: str) -> None:
    known = TOPOLOGY_FORMATS.get(name) or JOB_FORMATS[name]
    assert undo_of(GUIDES_OF_SCHEDULERS / f"{page}.md") == known.undo.format(file=file)


def test_the_undo_of_slurm_leaves_other_settings(tmp_path: Path) -> None:
    theirs = "ClusterName=lab\nTaskProlog=/opt/site/task-prolog\nTopologyParam=RouteTree\n"
    prologs = re.findall(r"^ +(\w+=/etc/slurm/.+\n)", (TREE / "examples/slurm/README.md").read_text(), re.MULTILINE)
    assert len(prologs) == 3
    file = tmp_path / "slurm.conf"
    file.write_text("".join(["TopologyPlugin=topology/tree\n", theirs, *prologs]))
    undo = undo_of(GUIDES_OF_SCHEDULERS / "slurm.md")
    subprocess.run(["sh", "-c", undo], env={**os.environ, "SLURM_CONF": str(file)}, check=True)
    assert file.read_text() == theirs


def test_the_undo_of_the_extender_leaves_the_scheduler_its_profile(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(block("schedulers/extender", "apiVersion: kubescheduler.config.k8s.io/v1"))
    before = yaml.safe_load(file.read_text())
    assert before.pop("extenders")
    subprocess.run(["sh", "-c", undo_of(GUIDES_OF_SCHEDULERS / "extender.md")], cwd=tmp_path, check=True)
    assert yaml.safe_load(file.read_text()) == before


DRY_RUN = re.compile(r"^ *gavotte ([a-z]+ .*--dry-run.*)$", re.MULTILINE)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_dry_run_has_the_options_of_the_command_that_follows(guide: Path) -> None:
    """Its own options apart; the command that follows may also write its result to a file."""
    text = guide.read_text("utf-8").replace("\\\n", " ")
    blocks = "\n".join(commands for commands, _ in SHELL.findall(text))
    for line in DRY_RUN.findall(blocks):
        words = [word for word in line.split() if word not in ("--dry-run", "--pilot")]
        rest = blocks[blocks.index(line) + len(line) :]
        following = next(command for command in COMMAND.findall(rest) if command.split()[:1] == words[:1])
        after = following.split()
        if "-o" in after and "-o" not in words:
            del after[after.index("-o") : after.index("-o") + 2]
        assert sorted(words) == sorted(after), f"{line} / {following}"


@pytest.mark.slow
@pytest.mark.parametrize(("guide", "program"), NEEDS.items())
def test_the_programs_of_a_guide_are_installed(guide: str, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed, so {guide}.md is not followed")


@pytest.mark.slow
@pytest.mark.lab
@pytest.mark.each_case
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize(
    "guide",
    [pytest.param(guide, marks=[] if guide.stem in FIRST else [pytest.mark.rare], id=guide.stem) for guide in GUIDES],
)
def test_a_guides_commands_run_as_written(guide: Path, tmp_path: Path, runtime: Path) -> None:
    needed = NEEDS.get(guide.stem)
    if needed is not None and shutil.which(needed) is None:
        pytest.skip(f"{needed} is not installed")
    with checkout(tmp_path, runtime / f"g-{guide.stem}") as environment:
        assert mistakes(guide, tmp_path, environment) == []


def mistakes(guide: Path, folder: Path, environment: dict[str, str]) -> list[str]:
    """Follow a guide; return lines that it shows but that were not printed, or the output of a command that failed."""
    printed = []
    for command in scripts(guide):
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return [f"exit status {done.returncode}", *(done.stdout + done.stderr).splitlines()[-40:]]
        printed.append(done.stdout)
    steps = zip(SHELL.findall(guide.read_text("utf-8")), printed[0].split(DIVIDER), strict=False)
    return [line for (_, shown), message in steps for line in unlike(shown, message)]
