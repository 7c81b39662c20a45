"""`gavotte history stability`: show how steady the rates between your hosts are."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gavotte.cli.declared import declared, option
from gavotte.cli.options import Json
from gavotte.cli.output import emit_json, emit_table, with_information
from gavotte.formats.parts.rates import format_rate

if TYPE_CHECKING:
    from gavotte.store.stability import Spread

AGE_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


@declared
def stability(
    source: Annotated[str, typer.Argument(help="A History file, or a series of the store.", metavar="H.npz|SERIES")],
    store: str | None = option("The store of the series; see `gavotte history list --help`.", "URL"),
    age: list[str] | None = option(
        "Age of the earlier measurement. May be repeated; by default 1m, 5m, 10m and 30m.", "30s|5m|1h"
    ),
    as_json: Json = False,
) -> None:
    """Show how rates vary over pairs and hours, how well an old measurement predicts a later one, and path lengths."""
    from gavotte.formats.history import read_history
    from gavotte.store import open_store
    from gavotte.store.stability import AGES_S, SHARES
    from gavotte.store.stability import stability as judged

    ages_s = [_age_s(text) for text in age or ()] or AGES_S
    if source.endswith(".npz"):
        history = read_history(Path(source))
    else:
        with open_store(store, create=False) as opened:
            history = opened.load(source)
    result = judged(history, ages_s=ages_s)
    if as_json:
        emit_json({"shares": SHARES, **asdict(result)})
        return
    heads = [*(f"{share} %" for share in SHARES), "pairs"]
    emit_table(
        ["time", *heads],
        [[_date(each.key), *_cells(each)] for each in result.over_time],
        title="rates in bit/s, by the percentage of pairs below them",
    )
    emit_table(
        ["age", "median error", "mean", "95 % below", "measurements"],
        [
            [_age(each.age_s), *map(_percent, (each.median, each.mean, each.most)), str(each.count)]
            for each in with_information(result.by_age, lambda age: age.count, "age", "without two measurements")
        ],
        title="\nrelative difference between an earlier and a later measurement of the same pair",
    )
    if result.by_hops:
        emit_table(
            ["hops", *heads],
            [[f"{each.key:g}", *_cells(each)] for each in result.by_hops],
            title="\nthe same by path length",
        )


def _cells(spread: Spread) -> list[str]:
    return [*(format_rate(rate).replace("bit/s", "").strip() for rate in spread.rate_bps), str(spread.pairs)]


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.2f} %"


def _date(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _age(age_s: float) -> str:
    return f"{age_s / 60:g} min" if age_s >= 60 else f"{age_s:g} s"


def _age_s(text: str) -> float:
    from gavotte.errors import GavotteError

    number, unit = text[:-1], text[-1:]
    try:
        age_s = float(number) * AGE_S[unit]
    except (KeyError, ValueError):
        raise GavotteError(f"--age: `{text}` is not a time", hint="use e.g. 30s, 5m or 1h") from None
    if not 0 < age_s <= 1e9:
        raise GavotteError(f"--age: {text} is out of range", hint="use more than 0 s")
    return age_s
