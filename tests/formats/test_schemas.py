"""The committed schemas agree with the types, and all pages name the same nouns."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gavotte
from gavotte.formats import nouns
from gavotte.formats.schemas import NOUNS, schema, type_of

TREE = Path(__file__).parents[2]
FOLDER = TREE / "docs" / "reference" / "schemas"


@pytest.mark.parametrize("noun", NOUNS)
def test_committed_schema_is_current(noun: str) -> None:
    committed = json.loads((FOLDER / f"{noun}.schema.json").read_text())
    assert committed == schema(noun), f"run: gavotte schema {noun} > docs/reference/schemas/{noun}.schema.json"


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md"])
def test_a_page_lists_the_nouns(page: str) -> None:
    text = " ".join((TREE / page).read_text("utf-8").split())
    (listed,) = re.findall(r"[Tt]en nouns[^:.]*: ((?:\w+, )+\w+)", text)
    assert tuple(listed.split(", ")) == nouns.NOUNS
    assert len(nouns.NOUNS) == 10


def test_formats_schemas_and_the_package_have_the_nouns() -> None:
    headings = re.findall(r"^## (\w+): ", (TREE / "docs" / "reference" / "formats.md").read_text("utf-8"), re.MULTILINE)
    assert set(headings) - {"Bytes"} == set(nouns.NOUNS)
    # A History is binary, and a Sample is a kind of Record.
    assert {type_of(each).__name__ for each in NOUNS} == {*nouns.NOUNS, "Sample"} - {"History"}
    for noun in nouns.NOUNS:
        assert {noun, f"read_{noun.lower()}"} <= {each.removesuffix("s") for each in gavotte.__all__}
        assert getattr(gavotte, noun).__module__ == f"gavotte.formats.{noun.lower()}"
