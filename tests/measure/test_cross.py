"""The two formulas of Choreo section 3.2, the error of the ill-conditioned one, and cross traffic in a Network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.played import PlayedFleet, inventory
from tests.builders import network
from typer.testing import CliRunner

from gavotte.agents import Fleet, Neighbour
from gavotte.agents import agent_pb2 as pb
from gavotte.cli import cross as command
from gavotte.cli.verbs import app
from gavotte.errors import GavotteError
from gavotte.formats.inventory import write_inventory
from gavotte.formats.network import read_network, write_network
from gavotte.measure import cross as crossing
from gavotte.measure.cross import (
    MOST,
    SEVERAL,
    CrossQuestion,
    connections,
    connections_from_ratio,
    cross,
    load_from_turns,
    windows,
)

PATH_BPS = 3e8


@given(c=st.floats(0, 50), rate=st.floats(1e6, 1e10))
def test_both_formulas_invert_fair_sharing(c: float, rate: float) -> None:
    assert connections(np.array([rate / (c + 1)]), rate)[0] == pytest.approx(c, abs=1e-6)
    for several in (2, 8):
        ratio = several * (c + 1) / (c + several)
        assert connections_from_ratio(ratio, several) == pytest.approx(c, rel=1e-6, abs=1e-6)


def test_edges() -> None:
    assert connections(np.array([0.0, 2e9]), 1e9).tolist() == [MOST, 0.0]
    assert connections_from_ratio(2.0, 2) == connections_from_ratio(8.1) == float("inf")
    assert connections_from_ratio(0.9) == 0.0


def test_windows_are_whole() -> None:
    assert windows(np.full(25, 1000.0)).tolist() == [pytest.approx(8 * 10_000 / 0.1)] * 2


def turns(c: float, noise: float, rng: np.random.Generator, count: int = 5) -> tuple[np.ndarray, np.ndarray]:
    one = PATH_BPS / (c + 1) * np.exp(rng.normal(0, noise, count))
    return one, SEVERAL * PATH_BPS / (c + SEVERAL) * np.exp(rng.normal(0, noise, count))


@pytest.mark.parametrize(("c", "noise"), [(0.0, 0.1), (1.0, 0.1), (2.0, 0.1), (3.0, 0.05), (12.0, 0.05), (12.0, 0.3)])
def test_the_interval_holds_the_truth_and_what_cannot_be_told_is_not(c: float, noise: float) -> None:
    rng = np.random.default_rng(int(c))
    matches = [load_from_turns(*turns(c, noise, rng)) for _ in range(400)]
    # Means of few windows are a little longer-tailed than Student's t: the test demands 92 % for an interval of 95 %.
    assert np.mean([load.low - 1e-9 <= c <= load.high + 1e-9 for load in matches]) > 0.92
    count = sum(bool(np.isfinite(load.connections)) for load in matches)
    if c <= 3:
        assert count > 200
    if noise == 0.3:
        assert count < 200


def test_a_wild_ratio_gives_no_number() -> None:
    # Result of the two runs one after the other: 2 others were estimated as 49.
    load = load_from_turns(np.array([80e6, 95e6, 100e6]), np.array([190e6, 150e6, 180e6]), 2)
    assert np.isnan(load.connections)
    assert load.high == float("inf")
    assert load.low < 2


def flow(bps: float, seconds: float) -> pb.FlowResult:
    bins = round(seconds / 0.01)
    return pb.FlowResult(bytes=int(bps * seconds / 8), seconds=seconds, bin_bytes=[int(bps / 800)] * bins, rtt_s=0.005)


def played(monkeypatch: pytest.MonkeyPatch, c: float, noise: float = 0.0, beside: tuple[Neighbour, ...] = ()) -> None:
    """A path of 300 Mbit/s with c others on it."""
    rng = np.random.default_rng(0)

    def say(requests: Mapping[str, pb.MeasureRequest]) -> Iterator[tuple[str, pb.ProbeReply]]:
        for name, part in requests.items():
            for at, probe in enumerate(part.probes):
                n, seconds = probe.bulk.flows, probe.bulk.seconds
                share = PATH_BPS / (c + n) * float(np.exp(rng.normal(0, noise)))
                bulk = pb.BulkResult(flows=[flow(share, seconds)] * n)
                yield name, pb.ProbeReply(round=probe.round, peer=probe.peer, bulk=bulk, started_s=at * seconds)

    fleet = PlayedFleet(["a", "b"], say)
    fleet.beside = lambda: list(beside)  # type: ignore[method-assign]

    @contextmanager
    def enrolled(*_: object, **__: object) -> Iterator[Fleet]:
        yield fleet

    monkeypatch.setattr(crossing, "enrolled", enrolled)


def test_turns_are_interleaved_and_tell_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, 3.0)
    traffic = cross(CrossQuestion(inventory(["a", "b"]), "a", "b"))
    assert traffic.how == "turns"
    assert traffic.median == pytest.approx(3.0, rel=1e-3)
    assert traffic.max_bps == pytest.approx(PATH_BPS, rel=1e-3)
    # Only the turns of one connection: at 0, 6 and 8, 14 and 16 s of 20.
    seconds = sorted({int(t) for t in traffic.time_s})
    assert seconds == [0, 1, 6, 7, 8, 9, 14, 15, 16, 17]


@pytest.mark.parametrize(
    "bad", [{"max_bps": 0.0}, {"max_bps": float("nan")}, {"seconds": 0.1}, {"target": "a"}, {"source": "z"}]
)
def test_bad_arguments(bad: dict[str, Any]) -> None:
    with pytest.raises(GavotteError):
        cross(CrossQuestion(inventory(["a", "b"]), **{"source": "a", "target": "b", **bad}))


def test_what_cannot_be_told_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    played(monkeypatch, 20.0, noise=0.3)
    traffic = cross(CrossQuestion(inventory(["a", "b"]), "a", "b"))
    assert not traffic.told
    assert len(traffic.connections) == 0
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, inventory(["a", "b"]))
    refused = CliRunner().invoke(app, ["measure", "cross", "a", "b", "--hosts", str(hosts), "--json"])
    assert isinstance(refused.exception, GavotteError)
    assert "is unknown without the rate" in str(refused.exception)
    assert '"median": null' in refused.stdout


def test_a_network_knows_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, 12.0)
    known = network(["a", "b"], PATH_BPS, rate_low_bps=[[None, 0.9 * PATH_BPS], [None, None]])
    traffic = cross(CrossQuestion(inventory(["a", "b"]), "a", "b", known=known))
    assert traffic.how == "known rate"
    assert traffic.median == pytest.approx(12.0, rel=1e-3)
    # The lower end of its rate gives a lower load.
    assert traffic.low == pytest.approx(0.9 * 13 - 1, rel=1e-3)
    # A path's usual slow-down is not part of its rate, and a guess is not knowledge.
    slowed = network(["a", "b"], PATH_BPS / 2, excess=[[None, 1.0], [None, None]])
    assert cross(CrossQuestion(inventory(["a", "b"]), "a", "b", known=slowed)).median == pytest.approx(12.0, rel=1e-3)
    guessed = network(["a", "b"], PATH_BPS, doubt=[[None, "guessed"], [None, None]])
    assert cross(CrossQuestion(inventory(["a", "b"]), "a", "b", known=guessed)).how == "turns"


def test_a_network_is_told_the_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    neighbour = Neighbour("1", "me@here", "run sort, join", "replay", ("a", "b"))
    played(monkeypatch, 2.0, beside=(neighbour,))
    hosts, before, after = tmp_path / "h.hosts.toml", tmp_path / "n.network.json", tmp_path / "m.network.json"
    write_inventory(hosts, inventory(["a", "b"]))
    write_network(before, network(["a", "b"], PATH_BPS))
    words = ["measure", "cross", "a", "b", "--hosts", str(hosts), "--network", str(before), "-o", str(after)]
    done = CliRunner().invoke(app, [*words, "--beside", "pipeline"])
    assert done.exit_code == 0, done.output
    loaded = read_network(after)
    assert loaded.cross[0][1] == pytest.approx(2.0, rel=1e-3)
    assert loaded.cross[1][0] is None
    assert loaded.cross_beside == ["join", "pipeline", "sort"]
    assert "the cross traffic contains them" in done.output


def test_an_output_needs_a_network(tmp_path: Path) -> None:
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, inventory(["a", "b"]))
    with pytest.raises(GavotteError, match="needs a Network"):
        command.cross(source="a", target="b", hosts=str(hosts), output=tmp_path / "n.network.json")
