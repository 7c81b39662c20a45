"""Nouns in notebooks and at Python's prompt: one line, and a table."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from tests.builders import app, network

from gavotte.formats.history import History
from gavotte.formats.network import Host
from gavotte.place import place
from gavotte.tables import MOST_ROWS, Tabular, html_matrix, html_rows

RATES = np.array([[np.nan, 1e9, 2e9], [3e9, np.nan, 4e9], [5e9, 6e9, np.nan]])
CLOUD = network(3, RATES, 1e-4)
JOB = app("job", ("a", "b", 10_000_000), ("b", "a", 20_000_000, 1))


class Cells(HTMLParser):
    """The cells of a table, and its caption."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.caption = ""
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, "a tag that is not closed"

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "caption":
            self.caption += data
        elif self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


def history(size: int) -> History:
    rates = np.full((1, size, size), 1e8)
    rates[0][np.diag_indices(size)] = np.nan
    names = tuple(f"h{i}" for i in range(size))
    zeros = np.zeros(size, dtype=np.int64)
    return History(
        np.full((1, size, size), 1e-3), rates, np.zeros(1), names, np.zeros((size, size), dtype=np.int64),
        np.ones(size), zeros, "train",
    )  # fmt: skip


def test_nouns_are_one_line() -> None:
    placement = place(CLOUD, JOB, "greedy")
    assert repr(CLOUD) == str(CLOUD) == "<Network: 3 hosts, hose>"
    assert repr(JOB) == "<App job: 2 tasks, 30.0 MB>"
    assert repr(history(3)) == "<History: 1 snapshot of 3 hosts, 6 paths measured by train>"
    assert repr(placement).startswith("<Placement by greedy: 2 tasks on ")
    assert "\n" not in repr(placement)


def test_a_network_is_a_matrix_of_rates() -> None:
    cells = Cells(CLOUD._repr_html_())
    assert cells.caption == "Network: 3 hosts, hose; Gbit/s, row = sender"
    names = [host.name for host in CLOUD.hosts]
    assert cells.rows == [
        ["", *names],
        [names[0], "", "1.00", "2.00"],
        [names[1], "3.00", "", "4.00"],
        [names[2], "5.00", "6.00", ""],
    ]


def test_many_hosts_are_a_list() -> None:
    many = CLOUD.model_copy(update={"hosts": [Host(name=f"h{i}", egress_bps=1e9) for i in range(100)], "rate_bps": []})
    cells = Cells(many._repr_html_())
    assert len(cells.rows) == 1 + MOST_ROWS
    assert cells.rows[1] == ["h0", "1e+09", ""]
    assert "80 more rows" in many._repr_html_()
    assert len(Cells(history(30)._repr_html_()).rows) == 1 + MOST_ROWS


def test_an_app_and_a_placement_are_tables() -> None:
    cells = Cells(JOB._repr_html_())
    assert cells.rows == [["", "a", "b"], ["a", "", "10.0 MB"], ["b", "20.0 MB", ""]]
    placement = place(CLOUD, JOB, "greedy")
    cells = Cells(placement._repr_html_())
    assert {task for _, tasks in cells.rows[1:] for task in tasks.split(", ")} == {"a", "b"}
    assert "bottleneck" in cells.caption


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'a"b', "&amp;"])
def test_names_with_markup_are_text(name: str) -> None:
    for text in (html_rows(name, [name], [[name]]), html_matrix(name, [name], [[(name, 1.0)]])):
        cells = Cells(text)
        assert cells.caption == name
        assert cells.rows[0][-1] == name
        assert cells.rows[1][-1] == name


def test_a_result_without_rows_is_an_empty_table() -> None:
    class Empty(Tabular):
        def to_records(self) -> list[dict[str, object]]:
            return []

    assert Cells(Empty()._repr_html_()).rows == [[]]
