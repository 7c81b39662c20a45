"""Background traffic as written on the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.errors import GavotteError
from gavotte.simulate import Background, parse_on_off, parse_poisson

HOSTS = ["vm0", "vm1", "vm2"]


def test_both_patterns() -> None:
    assert parse_poisson("vm0:vm2:5:1mb", HOSTS) == [Background(0, 2, poisson=(5.0, 1024.0**2))]
    assert parse_on_off("vm1:vm0:0.5:2:8mbit", HOSTS) == [Background(1, 0, on_off=(0.5, 2.0), cap_bps=8e6)]


def test_a_star_is_each_host() -> None:
    assert [(b.source, b.target) for b in parse_on_off("vm1:*:1:1", HOSTS)] == [(1, 0), (1, 2)]
    assert len(parse_poisson("*:*:1:1", HOSTS)) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vm0:vm1:1", "background `vm0:vm1:1` has 3 parts; use SOURCE:TARGET:PER_S:SIZE[:CAP]"),
        ("vm0:vm9:1:1mb", "background `vm0:vm9:1:1mb`: no host `vm9`; did you mean `vm"),
        ("vm0:vm0:1:1mb", "background `vm0:vm0:1:1mb` goes from a host to itself; use two hosts"),
        ("vm0:vm1:0:1mb", "background `vm0:vm1:0:1mb`: `0` is not a number of arrivals per second; use a number"),
        ("vm0:vm1:1:big", "background `vm0:vm1:1:big`: `big` is not a size"),
        ("vm0:vm1:1:1mb:fast", "background `vm0:vm1:1:1mb:fast`: `fast` is not a rate"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(GavotteError) as caught:
        parse_poisson(text, HOSTS)
    assert str(caught.value).startswith(message)


@given(st.text(alphabet="vm0129:*.e-+ninfakb", max_size=24))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    for parse in (parse_poisson, parse_on_off):
        try:
            result = parse(text, HOSTS)
        except GavotteError as error:
            assert "\n" not in str(error)
        else:
            assert result
