"""Each verb has a manual page that groff accepts without a warning, with its options and an example."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gavotte.cli.verbs import NAMES, load

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def written(folder: Path) -> Path:
    subprocess.run([sys.executable, ROOT / "tools" / "man-pages", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("man"))


def text_of(page: Path) -> str:
    """Return a page as `man` shows it, on one line and without marks of bold letters."""
    line: list[str | Path] = ["groff", "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=200n", "-rHY=0", page]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return " ".join(done.stdout.replace("\u2212", "-").replace("\u2010", "-").split())


def leaves(command: Any, *names: str) -> list[tuple[tuple[str, ...], Any]]:
    subs = getattr(command, "commands", {})
    return [(names, command), *(each for name, sub in subs.items() for each in leaves(sub, *names, name))]


def test_every_verb_has_a_page_and_no_other_has(pages: Path) -> None:
    assert {page.name for page in pages.iterdir()} == {"gavotte.1", *(f"gavotte-{name}.1" for name in NAMES)}


@pytest.mark.rare
@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("verb", ["", *NAMES])
def test_groff_accepts_a_page_that_has_all_options_and_an_example(pages: Path, verb: str) -> None:
    command: Any = load(NAMES)
    text = text_of(pages / f"gavotte{'-' * bool(verb)}{verb}.1")
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLE"):
        assert section in text
    for names, each in leaves(command):
        if names[:1] != ((verb,) if verb else ()) or (not verb and names):
            continue
        assert " ".join((each.epilog or "").removeprefix("Example: ").split()) in text
        for option in each.params:
            if option.param_type_name == "option" and not option.hidden:
                assert all(name in text for name in option.opts), option.opts


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_shows_a_page(pages: Path) -> None:
    done = subprocess.run(["man", "--warnings", "-l", pages / "gavotte-place.1"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert re.match(r"GAVOTTE-PLACE\(1\) +Gavotte +GAVOTTE-PLACE\(1\)", done.stdout)


def test_the_pages_have_the_same_bytes_again(pages: Path, tmp_path: Path) -> None:
    again = written(tmp_path / "again")
    assert {page.name: page.read_bytes() for page in again.iterdir()} == {
        page.name: page.read_bytes() for page in pages.iterdir()
    }
