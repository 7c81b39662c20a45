"""Parse background traffic from texts such as `vm0:vm3:5:1mb`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from gavotte.errors import GavotteError
from gavotte.formats.parts.names import known_as, meant
from gavotte.formats.parts.rate_fields import parse_rate, parse_size
from gavotte.simulate.flows import Background

T = TypeVar("T")

ANY = "*"
"""Placeholder for a host's name that stands for every host."""


def parse_poisson(text: str, hosts: Sequence[str]) -> list[Background]:
    """Parse random background flows, written `SOURCE:TARGET:PER_S:SIZE[:CAP]`.

    On average PER_S flows arrive per second, with SIZE bytes each. CAP is the highest rate of a flow.

    Args:
        text: for example `vm0:vm3:5:1mb`, or `*:vm3:0.2:10mb:50mbit`; sizes and rates as tc writes them.
        hosts: names of the network's hosts.

    Returns:
        One Background for each pair of hosts that the text names.

    Raises:
        GavotteError: naming the part that is wrong.
    """
    where = f"background `{text}`"
    pairs, (per_s, size), cap_bps = _parts(text, hosts, where, "SOURCE:TARGET:PER_S:SIZE[:CAP]")
    pattern = (_positive(per_s, where, "arrivals per second"), float(_as(parse_size, size, where)))
    return [Background(source, target, poisson=pattern, cap_bps=cap_bps) for source, target in pairs]


def parse_on_off(text: str, hosts: Sequence[str]) -> list[Background]:
    """Parse background traffic that alternates between sending and rest, written `SOURCE:TARGET:ON_S:OFF_S[:CAP]`.

    One flow sends as fast as it can for ON_S seconds on average, then rests for OFF_S seconds on average. CAP is its
    highest rate.

    Args:
        text: for example `vm0:vm3:5:5`, or `vm0:*:1:9:50mbit`.
        hosts: names of the network's hosts.

    Returns:
        One Background for each pair of hosts that the text names.

    Raises:
        GavotteError: naming the part that is wrong.
    """
    where = f"background `{text}`"
    pairs, (on_s, off_s), cap_bps = _parts(text, hosts, where, "SOURCE:TARGET:ON_S:OFF_S[:CAP]")
    pattern = (_positive(on_s, where, "seconds of sending"), _positive(off_s, where, "seconds of rest"))
    return [Background(source, target, on_off=pattern, cap_bps=cap_bps) for source, target in pairs]


def _parts(
    text: str, hosts: Sequence[str], where: str, form: str
) -> tuple[list[tuple[int, int]], tuple[str, str], float]:
    parts = text.split(":")
    if len(parts) not in (4, 5):
        raise GavotteError(f"{where} has {len(parts)} parts", hint=f"use {form}")
    sources, targets = (_hosts(name, hosts, where) for name in parts[:2])
    pairs = [(source, target) for source in sources for target in targets if source != target]
    if not pairs:
        raise GavotteError(f"{where} goes from a host to itself", hint="use two hosts")
    cap_bps = _as(parse_rate, parts[4], where) if len(parts) == 5 else math.inf
    return pairs, (parts[2], parts[3]), cap_bps


def _hosts(name: str, hosts: Sequence[str], where: str) -> Sequence[int]:
    if name == ANY:
        return range(len(hosts))
    name = known_as(name, hosts)
    if name not in hosts:
        raise GavotteError(f"{where}: no host `{name}`", hint=meant(name, hosts))
    return [hosts.index(name)]


def _positive(text: str, where: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise GavotteError(f"{where}: `{text}` is not a number of {what}", hint="use a number above 0")
    return value


def _as(parse: Callable[[str], T], text: str, where: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise GavotteError(f"{where}: {error}") from None
