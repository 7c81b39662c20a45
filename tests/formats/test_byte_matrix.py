"""The CSV of bytes by sender and receiver."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.errors import FormatError
from gavotte.formats.parts.byte_matrix import HostBytes, merged, read_byte_matrix


def read(tmp_path: Path, text: str) -> list[HostBytes]:
    path = tmp_path / "bytes.csv"
    path.write_text(text)
    return read_byte_matrix(path)


def test_columns_may_stand_in_any_order_and_among_others(tmp_path: Path) -> None:
    content = read(tmp_path, '\ufeffbytes, target,note,source\n\n5,"b",x,a\n0,a,,b\n')
    assert content == [HostBytes("a", "b", 5), HostBytes("b", "a", 0)]


def test_sizes_may_have_units_as_in_lists_of_flows(tmp_path: Path) -> None:
    content = read(tmp_path, "source,target,bytes\na,b,5MB\nb,a,1.5 kB\nc,a,0gb\n")
    assert [row.bytes for row in content] == [5_000_000, 1500, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("source,target,bytes\n", "has no rows"),
        ("a,b,5\n", "line 1: names other columns"),
        ("source,target,bytes,bytes\n", "line 1: names other columns"),
        ("source,target,bytes\na,b\n", "line 2: too few columns"),
        ("source,target,bytes\n\na,b,-5\n", "line 3: `-5` is not a number of bytes"),
        ("source,target,bytes\na,b,1e9\n", "line 2: `1e9` is not"),
        ("source,target,bytes\na,b,5MiB\n", "line 2: `5MiB` is not a number of bytes; use e.g. 104857600, or 5MB"),
        ("source,target,bytes\na,b,1.0001kb\n", "line 2: `1.0001kb` is not"),
        ("source,target,bytes\na,b,2000000tb\n", "line 2: `2000000tb` is not"),
        ("source,target,bytes\na,b,²\n", "line 2: `²` is not"),
        ("source,target,bytes\na,b,9999999999999999999\n", "is not a number of bytes"),
        ('source,target,bytes\n"a,b,5\n', "line 2"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FormatError) as error:
        read(tmp_path, text)
    assert message in str(error.value)
    assert error.value.hint or message == "line 2"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.csv: "):
        read_byte_matrix(tmp_path / "none.csv")


@given(st.text(alphabet='sourcetagbyn,"\n\r\x00 0159²kM.', max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(text.encode())
    try:
        assert all(row.bytes >= 0 for row in read_byte_matrix(path))
    except FormatError as error:
        assert str(path) in str(error)


def test_flows_with_the_same_ends_are_merged_in_order() -> None:
    flows = [HostBytes("a", "b", 5), HostBytes("b", "a", 1), HostBytes("a", "b", 2)]
    assert merged(flows) == [HostBytes("a", "b", 7), HostBytes("b", "a", 1)]
    assert merged(flows[:2]) == flows[:2]
