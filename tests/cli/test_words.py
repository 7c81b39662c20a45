"""The texts that a user reads: help at 80 columns, the options that the README promises, tables that lose nothing."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from gavotte.cli import output
from gavotte.cli.verbs import app

GROUPS = ("lab", "hosts", "history", "profile", "transfers", "guarantee", "campaign")
PASS_THROUGH = ("lab exec", "lab run")
"""Verbs whose output is that of the command that they run."""
RANDOM = {"demo", "measure", "measure sharing", "measure calibrate", "model", "place", "sequence"}
RANDOM |= {
    "compare",
    "launch",
    "broadcast",
    "collective",
    "map",
    "watch",
    "simulate",
    "shuffle",
    "ranks",
    "keep",
    "transfers simulate",
    "hosts slow",
}


def verbs(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if name and name not in GROUPS:
        yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from verbs(below, f"{name} {word}".strip())


VERBS = dict(verbs(typer.main.get_command(app)))


def test_all_verbs_are_seen() -> None:
    assert len(VERBS) > 25
    assert {*PASS_THROUGH, *RANDOM, "schema"} <= set(VERBS)


@pytest.mark.each_case
@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_help_fits_80_columns_and_gives_an_example(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    shown = CliRunner().invoke(app, [*name.split(), "--help"]).stdout
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert f"Example: gavotte {name}" in shown


@pytest.mark.parametrize("name", VERBS)
def test_every_option_is_explained(name: str) -> None:
    assert [
        option.name for option in VERBS[name].params if option.name != "help" and not getattr(option, "help", "")
    ] == []


@pytest.mark.parametrize("name", VERBS)
def test_json_and_seed_are_where_the_readme_says(name: str) -> None:
    options = {word for option in VERBS[name].params for word in option.opts}
    assert ("--json" in options) == (name not in (*PASS_THROUGH, "schema", "transfers serve"))
    assert ("--seed" in options) == (name in RANDOM)


words = st.text(st.sampled_from("abc/0"), min_size=1, max_size=30)
cells = st.lists(words, min_size=1, max_size=4).map(" ".join)


@given(st.data(), st.integers(1, 30), st.integers(0, 4))
def test_a_table_loses_nothing_at_80_columns(data: st.DataObject, columns: int, rows: int) -> None:
    names = [f"{data.draw(words)} {i}" for i in range(columns)]
    content = [[data.draw(cells) for _ in names] for _ in range(rows)]
    text = data.draw(st.sets(st.sampled_from(names)))
    with pytest.MonkeyPatch.context() as patch:
        shown_at = io.StringIO()
        console = Console(file=shown_at, width=80, highlight=False)
        patch.setattr(output, "stdout", lambda: console)
        patch.setattr(output, "_is_plain", lambda *_: False)  # as on a terminal
        output.emit_table(names, content, words=text)
        shown = shown_at.getvalue()
    for row in [names, *content]:
        for word in " ".join(row).split():
            assert word in shown
    for index, name in enumerate(names):
        if index and name not in text:
            for row in content:
                # A number that leaves the first column less than half of the width is broken like text.
                assert row[index] in shown or len(row[index]) > 80 // 2 - output.GAP


NAMES = st.text(st.sampled_from("abc-."), min_size=1, max_size=70)


@given(st.data(), st.sampled_from([60, 80]), st.integers(1, 12), st.integers(0, 4))
def test_no_table_is_wider_than_columns_and_no_letter_is_lost(
    data: st.DataObject, width: int, columns: int, rows: int
) -> None:
    names = [f"{data.draw(NAMES)}{i}" for i in range(columns)]
    content = [[data.draw(NAMES) for _ in names] for _ in range(rows)]
    text = data.draw(st.sets(st.sampled_from(names)))
    with pytest.MonkeyPatch.context() as patch:
        output.stdout.cache_clear()
        patch.setenv("COLUMNS", str(width))
        patch.setattr("sys.stdout", shown_at := io.StringIO())
        output.emit_table(names, content, words=text)
        output.stdout.cache_clear()
    shown = shown_at.getvalue()
    assert max(map(cell_len, shown.splitlines())) <= width
    for letter in "abc-.":
        wanted = sum(cell.count(letter) for row in (names, *content) for cell in row)
        assert shown.count(letter) >= wanted
