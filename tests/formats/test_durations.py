"""Durations, and the keys of a Topology that describe links."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.errors import FormatError
from gavotte.formats.files.reading import parse_toml, read_noun
from gavotte.formats.parts.durations import MAX_DURATION_S, parse_duration
from gavotte.formats.topology import Topology


@pytest.mark.parametrize(
    ("text", "duration_s"),
    [("150ms", 0.15), ("0.2ms", 2e-4), ("80us", 8e-5), ("1s", 1.0), ("0s", 0.0), (" 5 ns ", 5e-9), ("1e-3s", 1e-3)],
)
def test_durations_have_units(text: str, duration_s: float) -> None:
    assert parse_duration(text) == pytest.approx(duration_s)


@given(st.floats(0, MAX_DURATION_S), st.sampled_from([("s", 1.0), ("ms", 1e3), ("us", 1e6)]))
def test_what_is_written_is_read(duration_s: float, unit: tuple[str, float]) -> None:
    name, factor = unit
    written = min(duration_s, 0.999 * MAX_DURATION_S) * factor
    assert parse_duration(f"{written:.6f}{name}") == pytest.approx(float(f"{written:.6f}") / factor)


@pytest.mark.parametrize(
    "text", ["", "5", "ms", "-1ms", "1 min", "1h", "nan", "infs", "61s", "1e99s", "0x1s", "1,5ms", "٣ms"]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|is out of range"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("switch", "host", "message"),
    [
        ("", 'latency = "2"', 'host[0].latency: `2` is not a duration; use e.g. "2ms", "80us" or "1s"'),
        ("", "latency = 2", 'host[0].latency: 2 is not a duration; use a string with a unit, e.g. "2ms"'),
        ("", 'jitter = "2h"', "host[0].jitter: `2h` is not a duration"),
        ("", "loss = 1.5", "host[0].loss: is 1.5; it should be less than or equal to 1"),
        ("", "loss = -0.1", "host[0].loss: is -0.1; it should be greater than or equal to 0"),
        ("", "policer = true", "host[0].policer: has no cap to enforce; set egress or ingress, or remove policer"),
        (
            "",
            'policer = true\nqueue = "1mb"\negress = "1mbit"',
            "host[0].queue: has no effect with a policer; remove queue or policer",
        ),
        ('latency = "2ms"', "", "switch[0]: has no link to a parent that could delay or lose packets"),
        ("loss = 0.1", "", "switch[0]: has no link to a parent that could delay or lose packets"),
        ("policer = true", "", "switch[0].policer: is not a known key"),
    ],
)
def test_a_wrong_link_is_one_line(tmp_path: Any, switch: str, host: str, message: str) -> None:
    path = tmp_path / "x.topology.toml"
    lines = ['format = "gavotte/topology/1"', "[[switch]]", 'name = "s"', switch]
    lines += ["[[host]]", 'name = "h"', 'switch = "s"', host]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(FormatError) as caught:
        read_noun(Topology, path, parse_toml)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
