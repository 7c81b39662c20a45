"""Plans: samples and their order, byte for byte the same for one seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.campaign.studies import campaign, sample
from tests.examples import examples
from tests.shell import gavotte

from gavotte.campaign import check_budget, plan, remaining, write_samples
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.campaign import read_campaign
from gavotte.formats.topology import read_topology

STUDY = """format = "gavotte/campaign/1"
name = "distance"
seed = {seed}
order = "random"
repetitions = 5
seconds = 2.0
[driver]
kind = "lab"
topology = "cloud.topology.toml"
[[scenario]]
name = "same-rack"
kind = "pair"
source = ["vm0"]
target = ["vm1"]
connections = [1, 10, 30, 50]
[stop]
relative_half_width = 0.05
most_repetitions = 20
"""
CLOUD = """format = "gavotte/topology/1"
[[switch]]
name = "core"
[[host]]
name = "vm0"
switch = "core"
rate = "100mbit"
[[host]]
name = "vm1"
switch = "core"
rate = "200mbit"
"""


def write(folder: Path, seed: int = 1) -> Path:
    (folder / "cloud.topology.toml").write_text(CLOUD)
    path = folder / "study.campaign.toml"
    path.write_text(STUDY.format(seed=seed))
    return path


@pytest.mark.slow
def test_one_file_gives_one_plan_wherever_it_lies(tmp_path: Path) -> None:
    texts = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        done = gavotte("campaign", "plan", write(tmp_path / name), "--json")
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1
    report = json.loads(texts.pop())
    assert len(report["samples"]) == 4 * 20
    assert sum(not each["optional"] for each in report["samples"]) == 4 * 5
    assert len({each["sample"] for each in report["samples"]}) == 80
    # 2 s at the slower end's 100 Mbit/s, of which TCP keeps 1448/1514.
    assert report["estimate"]["bytes"] == 20 * round(2 * 100e6 * 1448 / 1514 / 8)
    other = gavotte("campaign", "plan", write(tmp_path / "there", seed=2), "--json")
    again = json.loads(other.stdout)
    assert {each["sample"] for each in again["samples"]} == {each["sample"] for each in report["samples"]}
    assert again["samples"] != report["samples"]


def test_kinds_say_who_sends_at_once() -> None:
    three = {"source": ["a", "b"], "target": ["c", "d"]}
    asked = campaign(
        {"kind": "loopback", "source": ["a", "b"], "name": "lo"},
        three | {"kind": "pair", "name": "pair"},
        three | {"kind": "parallel", "name": "n-way"},
        three | {"kind": "shuffle", "name": "shuffle"},
        {"kind": "incast", "source": ["a", "b"], "target": ["c"], "name": "incast"},
        {"kind": "all-to-all", "source": ["a", "b", "c"], "name": "all"},
        {"kind": "tunnel", "name": "tunnel"},
        repetitions=1,
    )
    groups: dict[str, list[set[tuple[str, str]]]] = {}
    for each in plan(asked).samples:
        groups.setdefault(each.scenario, []).append(set(each.pairs))
    assert sorted(map(sorted, groups["lo"])) == [[("a", "a")], [("b", "b")]]
    assert len(groups["pair"]) == 4
    assert groups["n-way"] == [{("a", "c"), ("b", "d")}]
    assert groups["shuffle"] == [{("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")}]
    assert groups["incast"] == [{("a", "c"), ("b", "c")}]
    assert len(groups["all"][0]) == 6
    assert groups["tunnel"] == [{("a", "b")}]


def test_directions_and_mtus_make_samples_of_their_own() -> None:
    asked = campaign({"directions": ["forward", "reverse", "both"], "mtu_bytes": [1400, 1500]}, repetitions=1)
    by_name = {each.sample: each for each in plan(asked).samples}
    assert set(by_name) == {
        f"s0{way}-mtu{mtu}/{ends}/p1/r0"
        for way, ends in (("", "a>b"), ("-reverse", "b>a"), ("-both", "a<>b"))
        for mtu in (1400, 1500)
    }
    both = by_name["s0-both-mtu1400/a<>b/p1/r0"]
    assert (both.pairs, both.base, both.scenario) == ((("a", "b"), ("b", "a")), "s0", "s0-both-mtu1400")
    assert by_name["s0-reverse-mtu1500/b>a/p1/r0"].pairs == (("b", "a"),)
    # A repetition of each is a cell of its own, which `compare` tests alone.
    assert len({each.cell for each in by_name.values()}) == 6


def test_udp_costs_what_it_offers() -> None:
    planned = plan(campaign({"protocol": "udp", "rate": "10mbit"}, repetitions=1, seconds=4.0))
    assert (planned.bytes, planned.samples[0].rate_bps) == (5_000_000, 10e6)


def test_new_keys_leave_the_digests_of_older_files_alone() -> None:
    # Recorded before the scenario had directions, protocol, rate, mtu_bytes and program_each.
    assert plan(campaign()).digest == "e0ad6fe001c547d6"
    assert plan(campaign({"directions": ["reverse"]})).digest != "e0ad6fe001c547d6"


@pytest.mark.parametrize(
    ("scenario", "fields", "says"),
    [
        ({"protocol": "udp"}, {}, "rate is missing"),
        ({"rate": "1mbit"}, {}, "has no place in `tcp`"),
        ({"protocol": "udp", "rate": "1mbit", "connections": [2]}, {}, "one stream"),
        ({"kind": "loopback", "protocol": "udp", "rate": "1mbit"}, {}, "needs two hosts"),
        ({"kind": "all-to-all", "source": ["a", "b"], "directions": ["both"]}, {}, "no place in `all-to-all`"),
        ({"kind": "parallel", "source": ["a", "b"], "target": ["b", "a"], "directions": ["both"]}, {}, "send twice"),
        ({"background": [{"source": "b", "target": "a"}], "directions": ["reverse"]}, {}, "itself measures"),
        ({"program_each": True}, {}, "agents as engine"),
        ({"kind": "incast", "source": ["a", "c"], "protocol": "udp", "rate": "1mbit"}, {}, "one UDP stream at a time"),
        ({"mtu_bytes": [100]}, {}, "100"),
        ({"mtu_bytes": [1400, 1400]}, {}, "names one twice"),
    ],
)
def test_traffic_that_cannot_be_measured_is_named(scenario: dict[str, Any], fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says.removeprefix("rate ")):
        campaign(scenario, **fields)


def test_each_host_has_one_spelling() -> None:
    asked = campaign(
        {"source": ["Node1"], "target": ["b"]},
        {"source": ["B"], "target": ["c"], "background": [{"source": "NODE1", "target": "C"}]},
        driver={"kind": "ssh", "hosts": "x.hosts.toml", "tenants": {"t": ["node1", "C"]}},
        repetitions=1,
    )
    planned = plan(asked)
    assert {each.pairs for each in planned.samples} == {(("Node1", "b"),), (("b", "c"),)}
    assert planned.campaign.endpoints == ["Node1", "b", "c"]
    driver = planned.campaign.driver
    assert (driver.tenants, driver.tenant("NODE1")) == ({"t": ["Node1", "c"]}, "t")


@pytest.mark.slow
def test_the_cost_of_a_path_is_known_in_any_case(tmp_path: Path) -> None:
    path = write(tmp_path)
    exact = gavotte("campaign", "plan", path, "--json")
    path.write_text(path.read_text().replace('["vm0"]', '["VM0"]'))
    other = gavotte("campaign", "plan", path, "--json")
    assert json.loads(other.stdout)["estimate"] == json.loads(exact.stdout)["estimate"]


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        ({"source": ["a", "A"], "target": ["b"]}, "names one twice"),
        ({"source": ["a"], "target": ["A"]}, "a host would send to itself"),
        ({"source": ["a"], "target": ["b"], "background": [{"source": "A", "target": "B"}]}, "the scenario itself"),
    ],
)
def test_one_host_in_two_spellings_is_one_host(scenario: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        campaign(scenario)


@given(st.integers(0, 2**63 - 1), st.integers(1, 5), st.sampled_from(["random", "blocked"]), st.booleans())
@examples(60)
def test_every_sample_stands_once_and_in_its_order(seed: int, repetitions: int, order: str, stops: bool) -> None:
    stop = {"stop": {"relative_half_width": 0.1, "most_repetitions": repetitions + 2}} if stops else {}
    asked = campaign(
        {"connections": [1, 2, 3], "flavours": ["x", "y"]},
        {"source": ["a", "c"], "target": ["b"]},
        seed=seed,
        repetitions=repetitions,
        order=order,
        flavour=[{"name": "x", "cpus": 0.5}, {"name": "y", "cores": 1}],
        **stop,
    )
    planned = plan(asked)
    assert planned == plan(asked)
    assert len({each.sample for each in planned.samples}) == len(planned.samples) == 8 * (repetitions + 2 * stops)
    must = [each for each in planned.samples if not each.optional]
    assert list(planned.samples[: len(must)]) == must
    if order == "blocked":
        assert [each.repetition for each in must] == sorted(each.repetition for each in must)
    rest = planned.samples[len(must) :]
    assert [each.repetition for each in rest] == sorted(each.repetition for each in rest)


def test_a_budget_counts_what_the_stop_rule_may_add() -> None:
    stop = {"relative_half_width": 0.1, "most_repetitions": 10}
    planned = plan(campaign(repetitions=2, seconds=10.0, stop=stop))
    check_budget(planned, seconds=120.0, size_bytes=None)
    with pytest.raises(GavotteError, match="takes up to 107 s"):
        check_budget(planned, seconds=60.0, size_bytes=None)
    with pytest.raises(GavotteError, match="sends up to 125 GB"):
        check_budget(planned, seconds=None, size_bytes=10**9)


@pytest.mark.parametrize(
    ("line", "field", "says"),
    [
        ('kind = "pare"', "scenario[0].kind", "'pare'"),
        ('target = ["vm0"]', "scenario[0].target", "send to itself"),
        ("connections = [65]", "scenario[0].connections[0]", "65"),
        ('flavours = ["big"]', "scenario[0].flavours", "is not a flavour"),
        ("connections = [1, 1]", "scenario[0].connections", "names one twice"),
        ('background = [{ source = "vm0", target = "vm1" }]', "scenario[0].background[0]", "itself measures"),
        ("speed = 3", "scenario[0].speed", "not a known key"),
    ],
)
def test_a_mistake_names_file_field_and_remedy(tmp_path: Path, line: str, field: str, says: str) -> None:
    path = write(tmp_path)
    head, _, scenario = path.read_text().partition("[[scenario]]\n")
    key = line.partition(" =")[0]
    kept = [each for each in scenario.splitlines() if not each.startswith(f"{key} =")]
    path.write_text("\n".join([head + "[[scenario]]", line, *kept]))
    with pytest.raises(FormatError) as caught:
        read_campaign(path)
    assert caught.value.field == field
    assert says in str(caught.value)


def test_a_driver_takes_its_own_keys_only() -> None:
    with pytest.raises(ValueError, match="is not a key of a `ssh` driver"):
        campaign(driver={"kind": "ssh", "hosts": "h.hosts.toml", "image": "debian"})
    with pytest.raises(ValueError, match="needs `topology`"):
        campaign(driver={"kind": "lab"})


@pytest.mark.slow
def test_a_file_of_another_campaign_is_not_gone_on_with_and_a_whole_one_needs_no_endpoints(tmp_path: Path) -> None:
    path = write(tmp_path)
    topology = tmp_path / "cloud.topology.toml"
    planned = plan(read_campaign(path), topology=read_topology(topology))
    output = tmp_path / "r.jsonl"
    whole = [
        sample(
            each.scenario, each.repetition, 1e8, sample=each.sample, connections=each.connections, source=each.source
        )
        for each in planned.samples
    ]
    write_samples(output, [each.model_copy(update={"metadata": {"plan": planned.digest}}) for each in whole])
    done = gavotte("campaign", "run", path, "-o", output, "--resume", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["skipped"] == 80
    for file, old, new in ((topology, "vm1", "vm9"), (path, "seconds = 2.0", "seconds = 3.0")):
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        wrong = gavotte("campaign", "run", path, "-o", output, "--resume")
        assert wrong.returncode == 1
        assert "is not of this campaign file" in wrong.stderr
        file.write_text(text)
    fresh = gavotte("campaign", "run", path, "-o", output)
    assert "holds samples already" in fresh.stderr


def test_a_dry_run_checks_the_file_and_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path)
    planned = plan(read_campaign(path), topology=read_topology(tmp_path / "cloud.topology.toml"))
    output = tmp_path / "r.jsonl"
    assert remaining(planned, output, resume=True).samples == 20
    taken = [
        sample(each.scenario, each.repetition, 1e8, sample=each.sample, metadata={"plan": planned.digest})
        for each in planned.samples[:5]
    ]
    write_samples(output, taken)
    with output.open("a") as stream:
        stream.write('{"torn')
    content = output.read_bytes()
    done = gavotte("campaign", "run", path, "-o", output, "--resume", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["present"], report["samples"], report["optional"], report["cut_bytes"]) == (5, 15, 60, 6)
    assert report["seconds"] == pytest.approx(15 * 2.7)
    assert "holds 5 samples" in done.stderr
    fresh = gavotte("campaign", "run", path, "-o", output, "--dry-run")
    assert fresh.returncode == 1
    assert "holds samples already" in fresh.stderr
    path.write_text(path.read_text().replace("seconds = 2.0", "seconds = 3.0"))
    other = gavotte("campaign", "run", path, "-o", output, "--resume", "--dry-run")
    assert other.returncode == 1
    assert "is not of this campaign file" in other.stderr
    assert output.read_bytes() == content
