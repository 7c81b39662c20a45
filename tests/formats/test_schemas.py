"""The committed schemas agree with the types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gavotte.formats.schemas import NOUNS, schema

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "schemas"


@pytest.mark.parametrize("noun", NOUNS)
def test_committed_schema_is_current(noun: str) -> None:
    committed = json.loads((FOLDER / f"{noun}.schema.json").read_text())
    assert committed == schema(noun), f"run: gavotte schema {noun} > docs/reference/schemas/{noun}.schema.json"
