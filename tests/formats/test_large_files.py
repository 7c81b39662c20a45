"""Large files are read without Python objects in between, with the same results and the same errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from tests import builders

from gavotte._core import toml_as_json
from gavotte.errors import FormatError
from gavotte.formats.app import App, read_app, write_app
from gavotte.formats.files import reading
from gavotte.formats.network import read_network, write_network

KEYS = st.text(min_size=1, max_size=8)
VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_toml_as_json_has_the_same_values(document: dict[str, Any]) -> None:
    text = tomli_w.dumps(document)
    content = toml_as_json(text)
    if content is None:
        # A text that looks like a number which JSON lacks.
        assert "inf" in text or "nan" in text or "$__toml_private" in text
    else:
        assert json.loads(content) == tomli.loads(text) == document


@pytest.mark.parametrize(
    "text",
    [
        "a = inf",
        "a = -nan",
        "a = [1.0,\n inf]",
        "a = {b = +inf}",
        "a = 1979-05-27",
        "a = [07:32:00]",
        "a = ",
        "[a",
        "a = 1\na = 2",
    ],
)
def test_what_json_lacks_and_what_is_no_toml_is_left_to_the_usual_reader(text: str) -> None:
    assert toml_as_json(text) is None


def test_words_that_contain_such_numbers_are_no_numbers() -> None:
    assert toml_as_json('info = "nano"\nname = "infinite"') == b'{"info":"nano","name":"infinite"}'


def large() -> App:
    transfers = [(f"t{i}", f"t{(7 * i + 1) % 3000}", 1000 + i) for i in range(3000)]
    return builders.app("large", *transfers, arrival_s=2.5)


@pytest.mark.parametrize("ending", ["toml", "json"])
def test_a_large_app_is_the_same_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    path = tmp_path / f"a.app.{ending}"
    write_app(path, large())
    assert path.stat().st_size > reading.LARGE_CHARACTERS
    quick = read_app(path)
    monkeypatch.setattr(reading, "LARGE_CHARACTERS", 1 << 40)
    assert quick == read_app(path) == large()
    assert quick.model_dump() == read_app(path).model_dump()


def test_a_large_network_is_the_same_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = [[None if m == n else 1e9 / (1 + (m * n) % 7) for n in range(100)] for m in range(100)]
    write_network(tmp_path / "n.network.json", builders.network(100, rates))
    assert (tmp_path / "n.network.json").stat().st_size > reading.LARGE_CHARACTERS
    quick = read_network(tmp_path / "n.network.json")
    monkeypatch.setattr(reading, "LARGE_CHARACTERS", 1 << 40)
    assert quick == read_network(tmp_path / "n.network.json")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('source = "t5"', 'source = "zz"', "transfer[5].source: "),
        ("bytes = 1005", "bytes = -1", "transfer[5].bytes: is -1"),
        ("bytes = 1005", "byte = 1005", "transfer[5].byte: is not a known key; did you mean `bytes`?"),
        ("bytes = 1005", "bytes = nan", "transfer[5].bytes: is nan"),
        ("bytes = 1005", "bytes = ", "is not TOML"),
        ('format = "gavotte/app/1"', 'format = "gavotte/app/9"', "format: is 'gavotte/app/9'"),
    ],
)
def test_errors_of_large_files_name_field_and_remedy(tmp_path: Path, before: str, after: str, message: str) -> None:
    path = tmp_path / "a.app.toml"
    write_app(path, large())
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(FormatError) as raised:
        read_app(path)
    assert message in str(raised.value)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_large_json_with_constants_that_json_lacks_is_refused(tmp_path: Path, constant: str) -> None:
    path = tmp_path / "a.app.json"
    write_app(path, large())
    path.write_text(path.read_text().replace('"arrival_s": 2.5', f'"arrival_s": {constant}'))
    with pytest.raises(FormatError, match="which JSON does not have"):
        read_app(path)
