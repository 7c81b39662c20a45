"""Rates and sizes are read as tc reads them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.rate_fields import parse_rate, parse_size
from gavotte.formats.parts.rates import common_unit, format_bytes, format_in, format_rate


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("300mbit", 300e6),
        ("1.5gbit", 1.5e9),
        ("10Gbit", 10e9),
        ("25mbps", 200e6),
        ("1mibit", 2.0**20),
        ("1000000", 1e6),
        ("5k", 5000.0),
        (" 5 kbit ", 5000.0),
    ],
)
def test_rates(text: str, bps: float) -> None:
    assert parse_rate(text) == bps


@pytest.mark.parametrize(("text", "size"), [("32kb", 32768), ("512k", 524288), ("1500b", 1500), ("5mb", 5 << 20)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "mbit", "-1mbit", "0", "1e99gbit", "nan", "inf", "1 2mbit", "٣mbit", "1mb it"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        parse_rate(text)


@given(st.text(max_size=20))
def test_any_text_is_a_rate_or_an_error(text: str) -> None:
    for parse in (parse_rate, parse_size):
        with contextlib.suppress(PydanticCustomError):
            assert parse(text) > 0


@given(st.floats(min_value=1, max_value=1e14))
def test_a_rate_for_people_keeps_three_digits(rate_bps: float) -> None:
    shown = parse_rate(format_rate(rate_bps).replace("bit/s", "bit"))
    assert shown == pytest.approx(rate_bps, rel=0.006)


def test_sizes_for_people() -> None:
    assert format_bytes(999) == "999 B"
    assert format_bytes(264_960_000) == "265 MB"
    assert format_rate(287e6) == "287 Mbit/s"
    assert format_rate(float("inf")) == "unlimited"


@pytest.mark.parametrize(("number", "phrase"), [(0, "0 pairs"), (1, "1 pair"), (2, "2 pairs")])
def test_a_count_takes_its_noun_along(number: int, phrase: str) -> None:
    assert counted(number, "pair") == phrase


@pytest.mark.parametrize(
    ("rates_bps", "unit", "cells"),
    [
        ([287e6, 1.05e9], "Mbit/s", ["287", "1050"]),
        ([42.84e6, 9.41e9], "Mbit/s", ["42.8", "9410"]),
        ([1e9, 4e10], "Gbit/s", ["1.00", "40.0"]),
        ([8e5, 1e10], "Mbit/s", ["0.800", "10000"]),
        ([0.0, 999.6e6], "Gbit/s", ["0", "1.00"]),
    ],
)
def test_all_rates_of_a_table_have_one_unit(rates_bps: list[float], unit: str, cells: list[str]) -> None:
    common, scale = common_unit(rates_bps)
    assert (common, [format_in(rate, scale) for rate in rates_bps]) == (unit, cells)
