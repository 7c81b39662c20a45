"""The page: one file, labels that do not overlap, doubtful cells marked, and wrong inputs in one line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion
from tests import builders

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.history import History, Proof
from gavotte.formats.network import Group, LinkVerdict, Network
from gavotte.formats.placement import Placement
from gavotte.model import model
from gavotte.report import Outcome, report
from gavotte.report.grid import LABEL_PX, grid
from gavotte.report.layout import layout
from gavotte.report.traffic import CROWD, SPACING_PX, host_bytes, ring
from gavotte.terms.labels import LETTERS, shortened
from gavotte.terms.limits import limits_of
from gavotte.terms.standouts import standouts

TAGS_WITHOUT_END = {"meta", "image", "path", "rect", "br", "stop", "circle"}


def measured(names: list[str]) -> History:
    rng = np.random.default_rng(len(names))
    return builders.history(rng.uniform(1e7, 2e7, (4, len(names), len(names))), hosts=tuple(names))


def ranks(size: int, task: str = "rank{}") -> App:
    names = [task.format(i) for i in range(size)]
    hops = [(i, hop) for i in range(size) for hop in (1, 2)]
    return builders.app("app", *((names[i], names[(i + hop) % size], 10**6 * (i + hop)) for i, hop in hops))


def placed(network: Network, app: App) -> Placement:
    hosts = network.names
    assignment = {task.name: hosts[i % len(hosts)] for i, task in enumerate(app.task)}
    return builders.placement(assignment, app.name, method="by hand", completion_s=2.0)


class Page(HTMLParser):
    """Checks that tags nest, and collects references to other files, and the data of the grids."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.data: dict[str, Any] = {}
        self.words: list[str] = []
        self._reading = ""
        self.text = path.read_text()
        self.feed(self.text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.outside += [v for k in ("src", "href") if (v := given.get(k)) and not v.startswith("data:")]
        if tag not in TAGS_WITHOUT_END:
            self.open.append(tag)
        if given.get("type") == "application/json":
            self._reading = given.get("id") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag not in TAGS_WITHOUT_END:
            assert self.open.pop() == tag
        self._reading = ""

    def handle_data(self, data: str) -> None:
        if self._reading:
            self.data[self._reading] = json.loads(data)
        elif data.strip() and not {"script", "style", "svg"} & set(self.open):
            self.words.append(f"{self.open[-1]}: {' '.join(data.split())}")


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 10, 64, 200])
@pytest.mark.parametrize("name", ["vm{}", "compute-node-with-a-long-name-{:03d}.zone-b.prod.example.internal"])
def test_labels_keep_clear_of_each_other(size: int, name: str) -> None:
    names = [name.format(i)[:63] for i in range(size)]
    rates = np.random.default_rng(0).uniform(1, 1000, (size, size))
    drawn = grid(names, rates, "Mbit/s")
    assert len(set(drawn.names)) == size
    assert max(map(len, drawn.names)) <= LETTERS
    assert drawn.cell * drawn.step >= LABEL_PX  # from one label to the next; a label is 11 high
    network = model(measured(names)) if size > 1 else None
    if network is not None:
        app = ranks(2 * size)
        placement = placed(network, app)
        circle = ring(network, placement, host_bytes([app], placement), 2.0)
        x, y = circle.nodes[0].x, circle.nodes[0].y
        assert 2 * pi * float(np.hypot(x, y)) / size >= SPACING_PX - 1e-9
        left, top, width, height = circle.box
        assert all(left < n.x < left + width and top < n.y < top + height for n in circle.nodes)


def test_only_hosts_with_tasks_are_drawn_of_many() -> None:
    network = model(measured([f"h{i}" for i in range(CROWD + 6)]))
    app = ranks(4)
    placement = placed(network, app)
    assert [node.label for node in ring(network, placement, {}, 1.0).nodes] == [f"h{i} · 1" for i in range(4)]


def test_names_are_shortened_to_what_tells_them_apart() -> None:
    assert shortened(["a.zone.cloud", "b.zone.cloud"]) == ["a", "b"]
    assert shortened(["only.zone.cloud"]) == ["only.zone.cloud"]
    assert shortened(["node-" * 8 + "1", "node-" * 8 + "2"]) == ["…1", "…2"]
    assert shortened(["x" * 63, "y" * 63]) == ["x" * 11 + "…" + "x" * 12, "y" * 11 + "…" + "y" * 12]


def test_the_page_is_one_file_with_date_version_and_every_pair(tmp_path: Path) -> None:
    past = measured(["a", "b", "c"])
    network, app = model(past), ranks(4)
    outcome = Outcome(placed(network, app), measured_s=2.5, simulated_s=2.2)
    path = tmp_path / "r.html"
    report(path, network, history=past, apps=[app], outcomes=[outcome], facts={"seed": "7"}, made_s=0.0)
    page = Page(path)
    assert page.outside == []
    assert re.search(r"Made 1970-01-01 00:00:00 UTC by gavotte \d+\.\d+", page.text)
    assert "2.500 s" in page.text
    assert "by hand" in page.text
    assert "<dt>seed</dt><dd>7</dd>" in page.text
    lines = {line["label"]: line for line in page.data["rates"]["layers"]}
    rate = network.rate_bps[0][1]
    assert rate is not None
    assert lines["rate"]["values"][1] == pytest.approx(rate / 1e6, rel=1e-3)
    low = network.rate_low_bps[0][1]
    assert low is not None
    assert lines["95 % interval"]["values"][1] == pytest.approx(low / 1e6, rel=1e-3)
    assert lines["95 % interval"]["high"][1] == pytest.approx(rate**2 / low / 1e6, rel=1e-3)
    assert lines["snapshots"]["values"][1] == 4


def test_what_is_read_on_the_page(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    past, app = measured(["a", "b", "c"]), ranks(3)
    network = model(past)
    outcomes = [Outcome(placed(network, app), 3.0, 2.5), Outcome(placed(network, app), None)]
    path = tmp_path / "page.html"
    report(path, network, history=past, apps=[app], outcomes=outcomes, title="A title", facts={"seed": "7"}, made_s=0.0)
    assert "\n".join(Page(path).words).replace(_core.version(), "VERSION") == snapshot


def test_doubtful_cells_are_marked_and_say_why(tmp_path: Path) -> None:
    rates = np.full((1, 3, 3), 1e7)
    past = builders.history(rates)
    proof = Proof.empty(rates.shape)
    verdict = np.ones(rates.shape, dtype=np.int64)
    verdict[0, 0, 1] = 2  # host-limited
    past = replace(past, proof=replace(proof, verdict=verdict, low_Bps=rates * 0.99, high_Bps=rates * 1.01))
    network = model(past)
    rows = [list(row) for row in network.rate_low_bps]
    rows[1][2] = 1e6
    network = network.model_copy(update={"rate_low_bps": rows})
    report(tmp_path / "r.html", network, history=past)
    page = Page(tmp_path / "r.html")
    lines = page.data["rates"]["layers"]
    words = next(line for line in lines if line["words"])
    says = [words["words"][code] for code in words["values"]]
    assert says[1] == "a lower bound: a host was the limit"
    assert says[5] == "wide interval"
    assert says[2] == "the path was the limit"
    marks = re.search(r'<path d="(M[^"]*)" class="doubt"', page.text)
    assert marks is not None
    assert marks[1].count("M") == 2
    assert "6 of 6 known, 2 doubtful" in page.text


def experimented() -> Network:
    """Six hosts; `n0` sends at most 287 Mbit/s, and received 1.05 Gbit/s without a limit; one rack shares a link."""
    names = [f"n{i}" for i in range(6)]
    rates = np.full((6, 6), 287e6)
    rates[5] = 43e6
    made = builders.network(names, 287e6).with_rates(
        {(i, j): rates[i, j] for i in range(6) for j in range(6) if i != j}
    )
    hosts = [host.model_copy(update={"egress_bps": 287e6, "ingress_bps": 287e6}) for host in made.hosts]
    hosts[4] = hosts[4].model_copy(update={"egress_bps": None, "ingress_bps": None})
    link = [
        LinkVerdict(link="into n5", verdict="unknown", evidence="not tested"),
        LinkVerdict(link="into n1", verdict="unknown", evidence="not tested"),
        LinkVerdict(link="into n0", verdict="open", at_least_bps=1.05e9, evidence="two pairs"),
        LinkVerdict(link="out of n0", verdict="hose", rate_bps=287e6, evidence="two pairs"),
        LinkVerdict(link="out of rack2", verdict="tor", rate_bps=143e6, evidence="three pairs"),
    ]
    group = Group(name="rack2", members=["n0", "n1", "n2"], up_bps=143e6)
    return made.model_copy(update={"hosts": hosts, "groups": [group], "verdicts": link, "sharing": "groups"})


def rows_of(page: Page, first: str) -> list[str]:
    """Return the cells of the row that begins with this text."""
    at = page.words.index(f"td: {first}")
    end = next((k for k, word in enumerate(page.words[at:], at) if not word.startswith("td: ")), len(page.words))
    return [word.removeprefix("td: ") for word in page.words[at:end]]


def test_the_page_says_what_the_model_says(tmp_path: Path) -> None:
    network = experimented()
    report(tmp_path / "r.html", network)
    page = Page(tmp_path / "r.html")
    assert page.words[page.words.index("li: " + standouts(network)[0]) + 1] == "li: " + standouts(network)[1]
    assert rows_of(page, "n0")[1:4] == ["1", "287", "at least 1050"]
    assert rows_of(page, "n1")[1:4] == ["1", "at least 287", "at least 287"]
    assert "at most" not in page.text
    limits = limits_of(network)
    for host in ("n0", "n1"):
        for cell, end in zip(rows_of(page, host)[2:4], (f"out of {host}", f"into {host}"), strict=True):
            assert cell.startswith("at least") == (not limits[end].certain)


def test_all_rates_on_the_page_have_one_unit(tmp_path: Path) -> None:
    report(tmp_path / "r.html", experimented())
    page = Page(tmp_path / "r.html")
    assert set(re.findall(r"\b[kMGT]bit/s", " ".join(page.words))) == {"Mbit/s"}
    assert {line["unit"] for line in page.data["rates"]["layers"] if line["label"] == "rate"} == {"Mbit/s"}


def test_rows_without_information_are_counted_and_the_others_come_first(tmp_path: Path) -> None:
    report(tmp_path / "r.html", experimented())
    words = Page(tmp_path / "r.html").words
    assert [words.index(f"td: {link}") for link in ("out of rack2", "out of n0", "into n0")] == sorted(
        words.index(f"td: {link}") for link in ("out of rack2", "out of n0", "into n0")
    )
    assert "td: into n5" not in words
    assert "td: n4" not in words
    assert "p: 2 links without a verdict: not tested." in words
    assert "p: Without a known rate: 1 host." in words
    assert "td: not known" not in words


def test_the_page_has_colours_for_dark_screens_and_only_there(tmp_path: Path) -> None:
    past, app = measured(["a", "b", "c"]), ranks(3)
    network = model(past)
    report(tmp_path / "r.html", network, history=past, apps=[app], outcomes=[Outcome(placed(network, app), 3.0, 2.5)])
    text = (tmp_path / "r.html").read_text()
    style, _, body = text.partition("</style>")
    assert "@media (prefers-color-scheme: dark)" in style
    names = set(re.findall(r"var\((--[a-z]+)\)", text)) - {"--columns", "--whole"}
    light, dark = (
        set(re.findall(r"(--[a-z]+):", part)) for part in style.split("@media (prefers-color-scheme: dark)")[:2]
    )
    assert names <= light
    assert light - dark == {"--unknown"}  # see-through grey, the same on both
    # Colours of the page belong into the style; those of data are the palettes'.
    assert not re.findall(
        r'(?:fill|stroke|background)[=:] ?"?#(?:222|fff|444|888|3b528b)\b', re.sub(r"style=\"fill[^\"]*\"", "", body)
    )


def test_strange_names_stay_text(tmp_path: Path) -> None:
    network, app = model(measured(["a", "b", "c"])), ranks(4, task="$_$<b>&{}")
    report(tmp_path / "r.html", network, apps=[app], outcomes=[Outcome(placed(network, app))], title="</script>")
    assert "$_$&lt;b&gt;&amp;0" in Page(tmp_path / "r.html").text
    report(tmp_path / "r.html", network, apps=[app], title="</script>")
    assert Page(tmp_path / "r.html").data["traffic-1"]["names"] == [f"$_$<b>&{i}" for i in range(4)]


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    past = measured(["a", "b", "c"])
    network, app = model(past), ranks(4)
    path = tmp_path / "r.html"
    with pytest.raises(GavotteError, match="host `c` of the Network is not in the History"):
        report(path, network, history=past.without(["c"]))
    with pytest.raises(GavotteError, match="application `app`"):
        report(path, network, outcomes=[Outcome(placed(network, app))])
    fewer = model(past.without(["c"]))
    with pytest.raises(GavotteError, match="is placed on `c`, which is not a host of the network"):
        report(path, fewer, apps=[app], outcomes=[Outcome(placed(network, app))])
    assert not path.exists()


def test_hosts_are_laid_out_by_rate() -> None:
    rack = np.arange(12) // 4
    rates = np.where(rack[:, None] == rack[None], 1e9, 2e8) * np.random.default_rng(3).lognormal(0, 0.05, (12, 12))
    names = [f"h{number}" for number in range(12)]
    drawn = layout(Network.from_numpy(names, rates), names)
    assert drawn is not None
    assert drawn.off < 0.2
    place = {name: (spot.x, spot.y) for spot in drawn.spots for name in spot.label.split(", ")}
    assert sorted(place) == sorted(names)
    far = [[np.hypot(*np.subtract(place[m], place[n])) for n in names] for m in names]
    near = rack[:, None] == rack[None]
    assert np.max(far, where=near, initial=0) < np.min(far, where=~near, initial=np.inf)
    assert all(0 <= spot.x <= drawn.width and 0 <= spot.y <= drawn.height for spot in drawn.spots)


@pytest.mark.parametrize("case", ["alike", "two", "unknown", "half", "zero", "same"])
def test_a_layout_that_would_show_nothing_is_left_out(case: str) -> None:
    size = 2 if case == "two" else 9
    rates = np.full((size, size), 1e8)
    if case == "unknown":
        rates[:] = np.nan
    elif case in ("half", "same"):
        rates[:5, :5] = 1e9
        rates[5:, 5:] = 1e9
    if case == "half":
        rates[np.random.default_rng(0).random((size, size)) < 0.5] = np.nan
    elif case == "zero":
        rates[0] = 1.0
    names = [f"h{number}" for number in range(size)]
    drawn = layout(Network.from_numpy(names, rates), names)
    assert (drawn is not None) == (case in ("half", "same"))
    if drawn is not None:
        assert np.isfinite([(spot.x, spot.y, spot.radius) for spot in drawn.spots]).all()
