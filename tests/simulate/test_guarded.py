"""`gavotte simulate --guarantee`: guarantees kept in the simulator, and its report of them."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import builders, shell

from gavotte.errors import GavotteError
from gavotte.formats.guarantee import FORMAT, Guarantee
from gavotte.formats.topology import Topology
from gavotte.simulate import (
    PROTECTIONS,
    Background,
    Conditions,
    Flows,
    GuardedSimulation,
    Queues,
    simulate,
    simulate_guarded,
)
from gavotte.terms.goodput import goodput_per_wire

HOSTS = ["x", "t", "z", "w"]
TOPOLOGY = """
format = "gavotte/topology/1"
[[switch]]
name = "core"
[[switch]]
name = "left"
parent = "core"
up = "100mbit"
""" + "".join(f'[[host]]\nname = "{host}"\nswitch = "{"left" if host in "xt" else "core"}"\n' for host in HOSTS)
GUARANTEE = f'format = "{FORMAT}"\n' + "".join(
    f'[[guarantee]]\nhost = "{host}"\negress = "45mbit"\ningress = "45mbit"\n' for host in HOSTS
)
FLOWS = """id,source,target,bytes,start_s,cap_bps,udp
tcp,x,z,100000000,0,,0
udp,t,w,100000000,0,120000000,1
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "t.topology.toml").write_text(TOPOLOGY)
    (tmp_path / "g.guarantee.toml").write_text(GUARANTEE)
    (tmp_path / "flows.csv").write_text(FLOWS)
    return tmp_path


def gavotte(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    files = ("t.topology.toml", "flows.csv", "--guarantee", "g.guarantee.toml")
    return shell.gavotte("simulate", *files, *words, cwd=here)


def guarantee(**more: object) -> Guarantee:
    entries = [{"host": host, "egress": "45mbit", "ingress": "45mbit"} for host in HOSTS]
    return Guarantee.model_validate({"format": FORMAT, "guarantee": entries} | more)


def flows(count: int = 2) -> Flows:
    """x to z and t to w, with unlimited bytes."""
    pairs = [(0, 2), (1, 3)][:count]
    source, target = (np.array(ends) for ends in zip(*pairs, strict=True))
    return Flows(source, target, np.full(count, 10**12), np.zeros(count))


def network() -> Topology:
    racks = [{"name": "core"}, {"name": "left", "up": "100mbit"}]
    return builders.topology(
        [{"name": host, "switch": "left" if host in "xt" else "core"} for host in HOSTS], switches=racks
    )


def test_what_programs_see(here: Path) -> None:
    done = gavotte(here, "--until", "8", "--json", "-o", "finish.csv")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["guarantee"]["protection"] == "auto"
    pair = report["guarantee"]["pairs"][0]
    assert (pair["source"], pair["target"]) == ("x", "z")
    assert pair["guarantee_bps"] == pytest.approx(45e6, rel=0.01)
    assert pair["rate_bps"] > 0.98 * 45e6
    assert pair["met"] >= 0.9
    assert {"limit_bps", "marks", "lost_bytes", "held"} <= pair.keys()
    assert [host["host"] for host in report["guarantee"]["hosts"]] == HOSTS
    assert (here / "finish.csv").read_text().startswith("id,finish_s\ntcp,")


def test_what_people_see_without_protection(here: Path) -> None:
    done = gavotte(here, "--until", "5", "--protection", "none")
    assert done.returncode == 0, done.stderr
    assert "pairs, worst first" in done.stdout
    assert "unlimited" in done.stdout


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_guarantees_are_kept_by_those_that_give_them(protection: str) -> None:
    done = simulate_guarded(network(), flows(), guarantee(), Conditions(until_s=6), protection=protection)
    rates = [float(pair.rates_bps[10:].mean()) for pair in done.pairs]
    assert done.protection == protection
    assert sum(rates) <= 100e6 * 1.001
    if protection in ("static", "auto", "ecn", "elasticswitch-ecn"):
        assert min(rates) > 0.97 * 45e6


def test_a_guarantee_is_wire_and_flows_are_payload() -> None:
    share = 0.5
    done = simulate_guarded(
        network(), flows(1), guarantee(), Conditions(until_s=4, payload_share=share), protection="static"
    )
    assert float(done.pairs[0].rates_bps[10:].mean()) == pytest.approx(45e6, rel=0.02)
    link = next(link for link in done.simulation.links if "left up" in link.name)
    assert 8 * link.bytes / 4 == pytest.approx(share * 45e6, rel=0.1)


@pytest.mark.parametrize("mtu_bytes", [1280, 1400, 9000])
@pytest.mark.parametrize("ipv6", [False, True])
def test_a_guarantee_on_a_measured_path_counts_the_headers_of_its_packets(mtu_bytes: int, ipv6: bool) -> None:
    mtus = [[None if m == n else mtu_bytes for n in range(4)] for m in range(4)]
    known = builders.network([{"name": host, "ipv6": ipv6} for host in HOSTS], 100e6, mtu_bytes=mtus)
    one = Flows(np.array([0]), np.array([2]), np.array([20_000_000]), np.zeros(1))
    done = simulate_guarded(known, one, guarantee(), protection="static")
    assert done.pairs[0].guarantee_bps == pytest.approx(45e6, rel=0.01)
    carried_bps = 8 * 20e6 / done.simulation.finish_s[0]
    assert carried_bps == pytest.approx(45e6 * goodput_per_wire(mtu_bytes, ipv6=ipv6), rel=0.02)


def test_a_host_says_why_it_had_less() -> None:
    short = guarantee(guarantee=[{"host": host, "egress": "90mbit", "ingress": "90mbit"} for host in HOSTS])
    done = simulate_guarded(network(), flows(), short, Conditions(until_s=6))
    least = min(done.hosts, key=lambda host: host.met)
    assert least.met < 0.5
    assert " to " in least.why
    assert math.isnan(simulate_guarded(network(), flows(1), guarantee(), Conditions(until_s=3)).hosts[1].met)


def test_queues_mark_or_do_not_and_may_be_deep() -> None:
    def run(queues: Queues) -> GuardedSimulation:
        eight = Flows(np.array([0] + [1] * 8), np.array([2] + [3] * 8), np.full(9, 10**12), np.zeros(9))
        return simulate_guarded(network(), eight, guarantee(), Conditions(until_s=6), queues=queues)

    for queues, marked in [(Queues(), False), (Queues(marks=True), True), (Queues(buffer_s=0.1), False)]:
        own = run(queues).pairs[0]
        assert (own.marks > 0) == marked
        assert own.met is not None
        assert own.met >= 0.95, queues  # one window of the start may be short
    assert run(Queues(buffer_s=0.1)).pairs[1].held in ("waited", "growing")
    with pytest.raises(GavotteError, match="a queue of 0 s"):
        Queues(buffer_s=0)


def test_constants_can_be_changed_by_name() -> None:
    def run(**parameters: float) -> GuardedSimulation:
        marking = Queues(marks=True)
        return simulate_guarded(
            network(), flows(), guarantee(), Conditions(until_s=3), parameters=parameters, queues=marking
        )

    plain, other = run(), run(mark_decrease=0.5)
    assert plain.pairs[0].rate_bps != other.pairs[0].rate_bps
    with pytest.raises(GavotteError, match="there is no parameter `beta`; use one of headroom, phantom_drain"):
        simulate_guarded(network(), flows(), guarantee(), parameters={"beta": 1.0})


@pytest.mark.parametrize(
    "given", [{"alpha_s": 1.0}, {"tcp": True}, {"accuracy": 0.01}, {"background": [Background(0, 1, (1.0, 1e6))]}]
)
def test_conditions_that_guarantees_do_not_have_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(GavotteError, match="guarantees are simulated with TCP and round trips of their own"):
        simulate_guarded(network(), flows(), guarantee(), Conditions(**given))


def test_the_result_warns_of_what_is_ignored() -> None:
    hosts = [{"name": host, "loss": 0.1, "latency": "1ms"} for host in HOSTS]
    lossy = builders.topology(hosts)
    plain = simulate(lossy, flows(), Conditions(until_s=1))
    guarded = simulate_guarded(lossy, flows(), guarantee(), Conditions(until_s=1)).simulation
    assert plain.warnings == []
    assert [line.split(" ", 1)[0] for line in guarded.warnings] == ["`loss`", "`latency`"]
    assert simulate(network(), flows(), Conditions(until_s=1)).warnings == []


def test_a_host_without_a_guarantee_is_not_slowed() -> None:
    entries = [{"host": host, "egress": "45mbit", "ingress": "45mbit"} for host in "xz"]
    done = simulate_guarded(network(), flows(), guarantee(guarantee=entries), Conditions(until_s=3))
    assert math.isinf(done.pairs[1].limit_bps)
    assert done.pairs[1].guarantee_bps == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (("--protection", "magic"), "`magic` is not a protection", 2),
        (("--queue", "0"), "a queue of 0 s", 1),
        (("--tcp",), "leave out the other options", 2),
        (("--poisson", "*:*:1:1MB"), "leave out the other options", 2),
        (("--alpha", "1"), "leave out --alpha", 2),
    ],
)
def test_a_mistake_is_told(here: Path, words: tuple[str, ...], message: str, status: int) -> None:
    done = gavotte(here, *words)
    assert done.returncode == status
    assert message in done.stderr.replace("\n", " ").replace("│", "").replace("  ", " ")


def test_a_guarantee_of_a_host_that_is_not_there(here: Path) -> None:
    (here / "g.guarantee.toml").write_text(GUARANTEE.replace('"w"', '"q"'))
    done = gavotte(here)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the network has no host `q`")
