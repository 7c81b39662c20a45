"""Two parsers read TOML: the fast one, and the one that names the place of an error. They must agree."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import tomli
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from gavotte.errors import FormatError
from gavotte.formats.files.reading import parse_toml

KEYS = st.text(min_size=1, max_size=8)
VALUES = st.recursive(
    st.text(max_size=20)
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.dates()
    | st.times(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
@examples(300)
def test_both_read_the_same_values(document: dict[str, Any]) -> None:
    text = tomli_w.dumps(document)
    assert parse_toml(text, "a.toml") == tomli.loads(text) == document
    assert list(parse_toml(text, "a.toml")) == list(tomli.loads(text))


@given(st.text("[]{}=\".,\n\\#'ab10_-+e:TZ ", max_size=40))
@examples(2000)
def test_what_both_read_is_the_same(text: str) -> None:
    with contextlib.suppress(tomli.TOMLDecodeError, FormatError):
        assert repr(parse_toml(text, "a.toml")) == repr(tomli.loads(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "a"\nname = "b"\n', "Cannot overwrite a value (at line 2, column 11)"),
        ("[host\n", "Expected ']' at the end of a table declaration (at line 1, column 6)"),
        ('{"format": "gavotte/app/1"}', "is JSON"),
        ("a = 1" + "0" * 5000, "holds an integer of thousands of digits"),
    ],
)
def test_an_error_names_line_and_column(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_toml(text, "a.toml")
    assert message in str(caught.value)


def test_integers_of_any_size_are_read() -> None:
    assert parse_toml("a = 99999999999999999999", "a.toml") == {"a": 99999999999999999999}


def test_deep_nesting_ends_in_an_error() -> None:
    with pytest.raises(FormatError, match="nested too deeply"):
        parse_toml("a = " + "[" * 100_000 + "]" * 100_000, "a.toml")
