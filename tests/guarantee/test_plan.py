"""Admission: a link that cannot keep its guarantees is named, with both numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.shell import gavotte

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.guarantee import FORMAT, Guarantee, read_guarantee
from gavotte.formats.network import write_network
from gavotte.guarantee import check_hosts, plan, warnings_of
from gavotte.terms.goodput import GOODPUT_PER_WIRE, goodput_per_wire

MBIT = 1e6 * GOODPUT_PER_WIRE
"""A wire rate of 1 Mbit/s, as a Network counts it."""

GROUPS = [
    {"name": "rack0", "members": ["vm0", "vm1"], "up_bps": 200 * MBIT, "down_bps": 100 * MBIT, "parent": "pod"},
    {"name": "pod", "members": ["vm2"], "up_bps": 150 * MBIT},
]


def text(*hosts: str, more: str = "", rates: str = 'egress = "45mbit"\ningress = "45mbit"') -> str:
    entries = "".join(f'[[guarantee]]\nhost = "{host}"\n{rates}\n' for host in hosts)
    return f'format = "{FORMAT}"\n{entries}{more}'


def guarantee(tmp_path: Path, content: str) -> Guarantee:
    path = tmp_path / "g.guarantee.toml"
    path.write_text(content)
    return read_guarantee(path)


def test_each_link_has_its_sum(tmp_path: Path) -> None:
    network = builders.network(4, 100 * MBIT, egress_bps=60 * MBIT, groups=GROUPS, sharing="groups")
    planned = plan(guarantee(tmp_path, text("vm0", "vm1", "vm2")), network)
    sums = {link.link: round(link.sum_bps / MBIT) for link in planned.links}
    assert sums["egress of vm0"] == 45
    assert sums["up link of rack0"] == sums["down link of rack0"] == 90
    assert sums["up link of pod"] == 135
    assert sums["path from vm0 to vm2"] == 45
    assert "down link of pod" not in sums
    assert planned.over == []
    assert planned.unlimited == []


@pytest.mark.parametrize("mtu_bytes", [1280, 1400, 9000])
def test_sums_count_headers_by_the_mtu_of_the_paths(tmp_path: Path, mtu_bytes: int) -> None:
    mtus = [[None if m == n else mtu_bytes for n in range(4)] for m in range(4)]
    network = builders.network(4, 100e6, egress_bps=60e6, groups=GROUPS, sharing="groups", mtu_bytes=mtus)
    sums = {link.link: link.sum_bps for link in plan(guarantee(tmp_path, text("vm0", "vm1", "vm2")), network).links}
    for link, wire_bps in {"egress of vm0": 45e6, "up link of rack0": 90e6, "path from vm0 to vm2": 45e6}.items():
        assert sums[link] == pytest.approx(wire_bps * goodput_per_wire(mtu_bytes))


def test_the_link_that_is_over_is_told(tmp_path: Path) -> None:
    network = builders.network(4, None, groups=GROUPS)
    (tmp_path / "g.guarantee.toml").write_text(text("vm0", "vm1", rates='egress = "45mbit"\ningress = "50mbit"'))
    write_network(tmp_path / "n.network.json", network)
    done = gavotte("guarantee", "plan", "g.guarantee.toml", "--network", "n.network.json", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "error: down link of rack0 cannot keep its guarantees: they sum to 95.6 Mbit/s, which is more than "
        "86.1 Mbit/s, 90 % of its rate; lower them, or place hosts elsewhere\n"
    )
    report = json.loads(done.stdout)
    assert not report["admitted"]
    assert report["over"] == ["down link of rack0"]
    assert report["links"][0] == {
        "link": "down link of rack0",
        "sum_bps": pytest.approx(100 * MBIT),
        "capacity_bps": pytest.approx(90 * MBIT),
        "rate_bps": pytest.approx(100 * MBIT),
        "over": True,
    }


def test_a_tenant_counts_where_one_of_its_hosts_is(tmp_path: Path) -> None:
    network = builders.network(3, None, groups=[GROUPS[0] | {"parent": None}])
    tenant = '[[tenant]]\nname = "a"\nhosts = ["vm0", "vm2"]\negress = "200mbit"\n'
    planned = plan(guarantee(tmp_path, text("vm0", "vm1", "vm2", more=tenant)), network)
    sums = {link.link: link.sum_bps / MBIT for link in planned.links}
    assert sums["up link of rack0"] == pytest.approx(45 + 200 - 45)
    assert sums["down link of rack0"] == pytest.approx(90)
    assert [link.link for link in planned.over] == ["up link of rack0"]
    assert planned.unlimited == ["vm2"]


@given(st.lists(st.integers(1, 100), min_size=2, max_size=6), st.integers(50, 400), st.floats(0, 0.5))
def test_what_is_admitted_fits_and_what_is_not_does_not(rates: list[int], up: int, headroom: float) -> None:
    hosts = [f"vm{i}" for i in range(len(rates))]
    entries = [{"host": host, "egress": f"{rate}mbit"} for host, rate in zip(hosts, rates, strict=True)]
    wanted = Guarantee.model_validate({"format": FORMAT, "headroom": headroom, "guarantee": entries})
    groups = [{"name": "rack", "members": hosts, "up_bps": up * MBIT}]
    planned = plan(wanted, builders.network(hosts, None, groups=groups))
    assert bool(planned.over) == (sum(rates) > up * (1 - headroom) * (1 + 1e-9))


@pytest.mark.parametrize(
    ("up_mbit", "row", "verdict"),
    [
        # 90 Mbit/s of at most 89.99, 90, 90.05 and 135: the first sum is too high by 0.01 %, which three digits hide.
        (89.99 / 0.9, ["86.08", "86.07", "95.6", "100.01"], "cannot keep"),
        (100.0, ["86.1", "86.1", "95.6", "100"], "can keep"),
        (90.05 / 0.9, ["86.08", "86.12", "95.7", "99.9"], "can keep"),
        (150.0, ["86.1", "129", "143", "67"], "can keep"),
    ],
)
def test_the_table_shows_which_number_is_higher(tmp_path: Path, up_mbit: float, row: list[str], verdict: str) -> None:
    groups = [{"name": "rack0", "members": ["vm0", "vm1"], "up_bps": up_mbit * MBIT}]
    (tmp_path / "g.guarantee.toml").write_text(text("vm0", "vm1", rates='egress = "45mbit"'))
    write_network(tmp_path / "n.network.json", builders.network(4, None, groups=groups))
    done = gavotte("guarantee", "plan", "g.guarantee.toml", "--network", "n.network.json", cwd=tmp_path)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("up link of rack0"))
    words = line.removeprefix("up link of rack0").replace("Mbit/s", "").split()
    assert words == [*row, "%", *verdict.split()]
    kept = verdict == "can keep"
    assert done.returncode == (0 if kept else 1)
    assert ("every link can keep" in done.stderr) == kept
    assert ("up link of rack0 cannot keep its guarantees: they sum to 86.08 Mbit/s" in done.stderr) != kept


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text("vm0", "vm0"), "guarantee[1].host: `vm0` is already the name of guarantee[0]"),
        (text("vm0", rates=""), "guarantee[0]: guarantees nothing"),
        (
            text("vm0", rates='egress = "9mbit"\negress_limit = "8mbit"'),
            "guarantee[0].egress_limit: 8.00 Mbit/s is below",
        ),
        (text("vm0", more='[[tenant]]\nname = "a"\nhosts = ["vm1"]'), "`vm1` is not a host with a guarantee"),
        (
            text("vm0", more="".join(f'[[tenant]]\nname = "{name}"\nhosts = ["vm0"]\n' for name in "ab")),
            "tenant[1].hosts[0]: `vm0` is a host of tenant `a`",
        ),
        (
            text("vm0", more='[[tenant]]\nname = "a"\nhosts = ["vm0"]\negress = "9mbit"'),
            "tenant[0].egress: 9.00 Mbit/s is below the sum of its hosts, 45.0 Mbit/s",
        ),
        (text("vm0") + "headroom = 0.1\n", "guarantee[0].headroom: "),
        (text("vm0").replace("[[", 'mode = "dctcp"\n[[', 1), "mode"),
        (text("vm0").replace("[[", "headroom = 1\n[[", 1), "headroom"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(FormatError) as raised:
        guarantee(tmp_path, content)
    assert message in str(raised.value)


def test_a_host_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GavotteError, match="the network has no host `vm9`; did you mean"):
        plan(guarantee(tmp_path, text("vm9")), builders.network(3))


def test_a_network_that_knows_nothing_is_said_to(tmp_path: Path) -> None:
    (tmp_path / "g.guarantee.toml").write_text(text("vm0", "vm1"))
    write_network(tmp_path / "n.network.json", builders.network(2))
    done: Any = gavotte("guarantee", "plan", "g.guarantee.toml", "--network", "n.network.json", cwd=tmp_path)
    assert done.returncode == 0
    assert "warning: the Network has no limit for vm0" in done.stderr


def test_receivers_without_limited_senders_are_named(tmp_path: Path) -> None:
    receivers = text("vm0", "vm1", rates='ingress = "45mbit"')
    network = builders.network(4, 100 * MBIT)
    with pytest.raises(GavotteError, match="nothing would be kept of what vm0 may receive") as raised:
        check_hosts(guarantee(tmp_path, receivers), builders.inventory(network.names))
    assert 'with `egress = "45mbit"`; the inventory has vm2, vm3' in str(raised.value)
    assert plan(guarantee(tmp_path, receivers), network).warnings[:2] == [
        f"what {host} may receive cannot be kept: no other host of the file has an `egress` that agents limit"
        for host in ("vm0", "vm1")
    ]
    sender = '[[guarantee]]\nhost = "vm2"\negress = "45mbit"\ningress = "9mbit"\n'
    wanted = guarantee(tmp_path, receivers + sender)
    check_hosts(wanted, builders.inventory(network.names))
    # vm2 sends to both, but no host with a limit sends to it.
    assert wanted.unlimited_receivers == ["vm2"]
    assert warnings_of(wanted, builders.inventory(network.names)) == [
        "what vm2 may receive is not kept: no other host of the file has an `egress`, so no sender is limited",
        "no guarantee limits what vm3 may send: over links that it shares with others, none of their guarantees is "
        "certain; name each host that sends, or keep it off these links",
    ]


def test_a_lone_host_is_refused(tmp_path: Path) -> None:
    lone = guarantee(tmp_path, text("vm0"))
    with pytest.raises(GavotteError, match="nothing would be kept of what vm0 may send: agents limit pairs") as raised:
        check_hosts(lone, builders.inventory(["vm0", "vm1", "vm2"]))
    assert "as an entry of its own; the inventory has vm1, vm2" in str(raised.value)
    check_hosts(guarantee(tmp_path, text("vm0", "vm1")), builders.inventory(["vm0", "vm1", "vm2"]))
    warning = "what vm0 may send cannot be kept: the file has no other host to make a pair with"
    assert warning in plan(lone, builders.network(3, 100 * MBIT)).warnings


def test_the_hosts_of_a_tenant_with_an_egress_are_limited(tmp_path: Path) -> None:
    shared = '[[tenant]]\nname = "a"\nhosts = ["vm0"]\negress = "90mbit"\n'
    wanted = guarantee(tmp_path, text("vm0", "vm1", rates='ingress = "45mbit"', more=shared))
    assert wanted.senders == ["vm0"]
    assert wanted.unlimited_receivers == ["vm0"]
