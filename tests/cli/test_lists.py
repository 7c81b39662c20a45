"""Help texts and pages list every name that a registry knows, so that a new name needs no change there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gavotte.cli import lists
from gavotte.cli.verbs import app
from gavotte.measure import METHODS as PROBES
from gavotte.place import METHODS
from gavotte.profile import SOURCES
from gavotte.transfer import POLICIES
from gavotte.transfer.planning import MECHANISMS

TREE = Path(__file__).parents[2]
OPTIONS = [(words, name, registry) for words, each in lists.REGISTRIES.items() for name, registry in each.items()]

PAGES = {
    "concepts/measurement.md": PROBES,
    "concepts/placement.md": METHODS,
    "concepts/transfers.md": POLICIES,
    "concepts/broadcast.md": MECHANISMS,
    "reference/profile-sources.md": SOURCES,
}


@pytest.mark.parametrize(("words", "name", "registry"), OPTIONS)
def test_help_lists_the_names_of_a_registry(words: str, name: str, registry: str) -> None:
    result = CliRunner().invoke(app, [*words.split(), "--help"], env={"COLUMNS": "400"}).output
    *others, last = lists.names_in(registry)
    assert f": {', '.join(others)} or {last}." in " ".join(result.split()), name


def test_a_new_name_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gavotte.mapping.METHODS", ("exchange", "tomorrow"))
    result = CliRunner().invoke(app, ["map", "--help"], env={"COLUMNS": "400"}).output
    assert "Method of mapping: exchange or tomorrow. greedy is" in result


@pytest.mark.parametrize("path", sorted((TREE / "python/gavotte/cli").glob("*.py")), ids=lambda path: path.name)
def test_no_help_repeats_a_registry(path: Path) -> None:
    constants = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    texts = [value for value in constants if isinstance(value, str)]
    for registry in {registry for _, _, registry in OPTIONS}:
        names = lists.names_in(registry)
        for text in texts:
            repeated = [name for name in names if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w+-])", text)]
            assert len(names) < 3 or len(repeated) < len(names), f"{text!r} lists {registry}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_explains_every_name(page: str) -> None:
    literals = " ".join(re.findall(r"`([^`\n]+)`", (TREE / "docs" / page).read_text("utf-8"))).split()
    assert [name for name in PAGES[page] if name not in literals] == []
