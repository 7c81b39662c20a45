"""A dry run predicts the run: the same rounds, the same bytes, the same seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agents.played import PlayedFleet, inventory
from typer.testing import CliRunner

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.cli.verbs import app
from gavotte.errors import GavotteError
from gavotte.formats.inventory import write_inventory
from gavotte.formats.network import Group, Host, Network, write_network
from gavotte.measure import CostLimits, MeasureQuestion, measure, measuring, plan_measurement, plan_paths
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.sharing import cost_of_sharing, foreseen

NAMES = tuple(f"h{i}" for i in range(8))


def two_racks() -> Network:
    """Four hosts behind each of two links that two of them fill."""
    racks = [Group(name=f"rack{i}", members=list(NAMES[4 * i : 4 * i + 4]), up_bps=1e8) for i in range(2)]
    unknown: list[list[float | None]] = [[None] * 8] * 8
    return Network(
        format="gavotte/network/1",
        hosts=[Host(name=name, egress_bps=5e7) for name in NAMES],
        rate_bps=unknown,
        latency_s=unknown,
        groups=racks,
        sharing="groups",
    )


@pytest.fixture
def fleets(monkeypatch: pytest.MonkeyPatch) -> list[PlayedFleet]:
    """Keep every fleet that a measurement holds."""
    held: list[PlayedFleet] = []

    @contextmanager
    def enrolled(*_: object, **__: object) -> Iterator[Fleet]:
        held.append(PlayedFleet(NAMES))
        yield held[-1]

    monkeypatch.setattr(measuring, "enrolled", enrolled)
    return held


def _probes(parts: Mapping[str, pb.MeasureRequest]) -> list[pb.Probe]:
    return [probe for part in parts.values() for probe in part.probes]


@pytest.mark.parametrize("some", [[], ["--pairs", "3"]])
@pytest.mark.parametrize("known", [None, two_racks()], ids=["unknown", "racks"])
def test_it_plans_as_the_run_does(
    fleets: list[PlayedFleet], tmp_path: Path, known: Network | None, some: list[str]
) -> None:
    hosts, network = tmp_path / "h.hosts.toml", tmp_path / "n.network.json"
    write_inventory(hosts, inventory(NAMES))
    words = ["measure", "--hosts", str(hosts), "--method", "bulk", "--count", "2", "--json", "--no-pilot", *some]
    if known is not None:
        write_network(network, known)
        words += ["--network", str(network)]
    result = CliRunner().invoke(app, [*words, "--dry-run"])
    assert result.exit_code == 0, result.output
    dry = json.loads(result.stdout)
    assert not fleets
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    (fleet,) = fleets
    asked = [parts for parts in fleet.asked if all(probe.HasField("bulk") for probe in _probes(parts))]
    rounds = [next(iter(parts.values())).rounds for parts in asked]
    probes = [probe for parts in asked for probe in _probes(parts)]
    assert len(probes) == 2 * dry["paths"] == 2 * json.loads(run.stdout)["paths"]
    # With racks, a few are measured twice.
    assert dry["bytes"] == pytest.approx(
        len(probes) * bulk().typical(5e7 if known and known.rate_bps[0][1] else 1e9)[0], rel=0.2
    )
    assert dry["seconds"] == pytest.approx(1.1 * sum(rounds), rel=0.25)
    assert dry["max_seconds"] >= dry["seconds"]
    if not some:
        assert (dry["rounds"] > 14) == (known is not None)


def test_no_round_has_two_pairs_on_a_known_link(fleets: list[PlayedFleet]) -> None:
    result = measure(inventory(NAMES), method="bulk", known=two_racks(), count=3)
    rows = result.to_records()
    assert [(row["source"], row["target"]) for row in rows] == [(a, b) for a in NAMES for b in NAMES if a != b]
    assert result.to_frame()["rate_bps"].tolist() == [1e8] * len(rows)
    leaving = [
        (number, probe.round, name[1] < "4")
        for number, parts in enumerate(fleets[0].asked)
        for name, part in parts.items()
        for probe in part.probes
        if probe.HasField("bulk") and (name[1] < "4") != (probe.peer[1] < "4")
    ]
    assert len(leaving) == len(set(leaving)) == 3 * 32
    # Agents that have finished enter the next round of a schedule early, so each round is a schedule of its own.
    assert {number for _, number, _ in leaving} == {0}


@pytest.mark.parametrize("up_bps", [4e7, 1e8])
def test_no_round_has_pairs_both_ways_on_a_link_that_one_pair_fills(up_bps: float) -> None:
    # Answers to a train waited in that queue: of 110 paths 27 were measured twice, and one had no rate.
    racks = [Group(name=f"rack{i}", members=list(NAMES[4 * i : 4 * i + 4]), up_bps=up_bps) for i in range(2)]
    plan = plan_paths(NAMES, known=two_racks().model_copy(update={"groups": racks}))
    ways = [{(i < 4, j < 4) for i, j in pairs if (i < 4) != (j < 4)} for pairs in plan.first]
    assert sum(map(len, plan.first)) == plan.paths == 56
    assert any(len(each) == 2 for each in ways) == (up_bps > 5e7)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"method": "guess"}, "unknown method"),
        ({"count": 0}, "0 snapshots"),
        ({"every_s": float("inf")}, "inf s between"),
        ({"pairs": [("h0", "h0")]}, "no path from h0 to h0"),
        ({"pairs": []}, "no pair"),
        ({"assumed_bps": 0.0}, "not a rate"),
    ],
)
def test_bad_plans(bad: dict[str, object], message: str) -> None:
    with pytest.raises(GavotteError, match=message):
        plan_paths(NAMES, **bad)  # type: ignore[arg-type]
    with pytest.raises(GavotteError, match=message):
        plan_measurement(MeasureQuestion(inventory(NAMES), **bad))  # type: ignore[arg-type]


def test_slower_paths_are_said_to_take_longer(tmp_path: Path) -> None:
    hosts = tmp_path / "x.hosts.toml"
    write_inventory(hosts, inventory(NAMES))
    seconds = {}
    for rate in (None, "1gbit", "20mbit"):
        option = () if rate is None else ("--assumed-rate", rate)
        ran = CliRunner().invoke(app, ["measure", "--hosts", str(hosts), "--dry-run", "--json", *option])
        assert ("give your rate with --assumed-rate" in ran.stderr) == (rate is None)
        seconds[rate] = json.loads(ran.stdout)["seconds"]
    assert seconds[None] == seconds["1gbit"] < seconds["20mbit"] / 2
    bad = CliRunner().invoke(app, ["measure", "--hosts", str(hosts), "--dry-run", "--assumed-rate", "fast"])
    assert "--assumed-rate: `fast` is not a rate; use e.g." in bad.stderr


@pytest.mark.parametrize("method", ["train", "choreo", "pingpong"])
@pytest.mark.parametrize("pairs", [None, [("h0", "h1"), ("h0", "h2"), ("h3", "h1")]])
@pytest.mark.parametrize("count", [1, 3])
def test_an_admitted_budget_suffices(method: str, pairs: list[tuple[str, str]] | None, count: int) -> None:
    planned = plan_paths(NAMES, method, count=count, pairs=pairs or "pairs")
    limits = CostLimits(bytes=planned.cost().bytes)
    todo = planned.within(limits)
    share = todo.budget(limits).max_bytes
    for k in range(len(NAMES)):
        sent = [pair for rounds in todo.first for pair in rounds if k == pair[0]]
        assert count * len(sent) * todo.method.bytes_per_path <= share
    if pairs is None:
        assert share * len(NAMES) == limits.bytes
    with pytest.raises(GavotteError, match="more than the budget"):
        planned.within(CostLimits(bytes=planned.cost().bytes - 1))


def dry(hosts: Path, *more: str) -> dict[str, float]:
    result = CliRunner().invoke(app, ["measure", "--hosts", str(hosts), "--dry-run", "--json", *more])
    assert result.exit_code == 0, result.output
    document: dict[str, float] = json.loads(result.stdout)
    return document


def test_it_counts_the_experiments(tmp_path: Path) -> None:
    hosts, network = tmp_path / "h.hosts.toml", tmp_path / "n.network.json"
    write_inventory(hosts, inventory(NAMES))
    known = two_racks().model_copy(update={"rate_bps": [[5e7] * 8] * 8})
    write_network(network, known)
    without, share = dry(hosts, "--network", str(network)), dry(hosts, "--network", str(network), "--sharing")
    expected = cost_of_sharing(foreseen(NAMES, known), known=known)
    assert share["bytes"] - without["bytes"] == expected.bytes > 0
    assert share["seconds"] - without["seconds"] == pytest.approx(expected.seconds)
    # Both racks' uplinks are loaded once, too.
    plain = known.model_copy(update={"groups": []})
    alone = cost_of_sharing(foreseen(NAMES, plain), known=plain)
    assert expected.bytes > alone.bytes
    refused = CliRunner().invoke(
        app, ["measure", "--hosts", str(hosts), "--sharing", "--network", str(network), "--budget", "290MB"]
    )
    assert isinstance(refused.exception, GavotteError)
    assert "more than the budget of 290 MB" in str(refused.exception)


@pytest.mark.parametrize(("rate_bps", "fast"), [(None, True), (5e7, False), (5e9, False)])
def test_only_paths_that_may_be_fast_cost_bytes_of_fast_paths(
    tmp_path: Path, rate_bps: float | None, fast: bool
) -> None:
    hosts, network = tmp_path / "h.hosts.toml", tmp_path / "n.network.json"
    write_inventory(hosts, inventory(NAMES[:3]))
    rates = [[None if i == j else rate_bps for j in range(3)] for i in range(3)]
    named = [Host(name=name) for name in NAMES[:3]]
    write_network(network, Network(format="gavotte/network/1", hosts=named, rate_bps=rates, latency_s=[[None] * 3] * 3))
    words = ["measure", "--hosts", str(hosts), "--dry-run", "--json"]
    words += ["--network", str(network)] if rate_bps else []
    result = CliRunner().invoke(app, words)
    dry = json.loads(result.stdout)
    assert (dry["fast_bytes"] > 0) == fast
    assert ("up to 1.92 GB more, only if paths turn out to be faster" in result.stderr) == fast
    assert f"at most {'2.30 GB' if rate_bps == 5e9 else '384 MB'}, about" in result.stderr
    limited = CliRunner().invoke(app, [*words, "--budget", "20GB"])
    assert "more, only if paths" not in limited.stderr


def test_no_host_sends_for_more_than_a_day(tmp_path: Path) -> None:
    hosts = tmp_path / "h.hosts.toml"
    write_inventory(hosts, inventory(["a", "b"]))
    words = ["measure", "--hosts", str(hosts), "--dry-run", "--no-pilot", "--sustain"]
    refused = CliRunner().invoke(app, [*words, "1e99"])
    assert isinstance(refused.exception, GavotteError)
    assert "hosts cannot send for 1e+99 s; use 0 to 86400" in str(refused.exception)
    assert CliRunner().invoke(app, [*words, "86400"]).exit_code == 0
