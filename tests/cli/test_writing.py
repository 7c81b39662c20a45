"""A file that cannot be written is refused before any work begins, by every command that writes one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gavotte.cli.verbs import NAMES, build
from gavotte.errors import FormatError
from gavotte.formats.files.reading import check_folder

REMOTE = {"broadcast -o", "pull -o", "transfers submit -o", "transfers join -o"}
"""Paths on other hosts."""
FOLDERS = {"hosts keys -o", "sequence --migrated"}
"""Folders, which these commands make."""
WRITES = re.compile(r"write |draw |append |keep this file|path of|folder to write", re.IGNORECASE)


def commands(command: Any, words: list[str]) -> Iterator[tuple[list[str], Any]]:
    """Yield each command below a command, and the words that call it."""
    if not hasattr(command, "commands"):
        yield words, command
        return
    if command.invoke_without_command and len(words) == 1:
        yield words, command
    for name, each in command.commands.items():
        yield from commands(each, [*words, name])


ROOT = get_command(build(NAMES))
OUTPUTS = sorted(
    {
        " ".join([*words, option.opts[0]])
        for verb, each in ROOT.commands.items()  # type: ignore[attr-defined]
        for words, command in commands(each, [verb])
        for option in command.params
        if option.param_type_name == "option"
        and option.metavar
        and ("-o" in option.opts or WRITES.search(option.help or ""))
    }
)


def test_every_area_writes() -> None:
    assert {"demo --report", "measure -o", "model --plot", "place -o", "place --hosts-guarantee"} <= set(OUTPUTS)
    assert set(OUTPUTS) >= REMOTE | FOLDERS


@pytest.mark.parametrize("line", sorted(set(OUTPUTS) - REMOTE - FOLDERS))
def test_a_missing_folder_is_refused_first(line: str, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(FormatError, match=re.escape(f"{path}: no such folder; create the folder")):
        ROOT.main([*line.split(), str(path)], standalone_mode=False)


def test_a_file_is_tried_but_not_touched(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("as it was")
    for name in ("old", "new"):
        check_folder(tmp_path / name)
    check_folder("/dev/null")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("old", "as it was")]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (".", "is a folder; name a file"),
        ("missing/file", "no such folder; create the folder, or name another file"),
        ("file/below", "no such folder; create the folder, or name another file"),
        ("/proc/file", "cannot be written: No such file or directory; name a file in another folder"),
        ("nul\0", "embedded null byte; check the path"),
    ],
)
def test_a_refusal_names_the_file_and_the_remedy(path: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FormatError) as refused:
        check_folder(tmp_path / path)
    assert str(refused.value).endswith(problem)
