"""What stands out in a network, in plain sentences: slow hosts, shared links, and nothing where nothing does."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import network

from gavotte.formats.network import Group, Host, LinkVerdict, Network
from gavotte.formats.parts.counting import listed
from gavotte.terms.limits import limits_of, link_rows
from gavotte.terms.standouts import host_sentences, link_sentences, standouts

NAMES = [f"n{i}" for i in range(6)]


def rates(**slow: float) -> np.ndarray:
    """Rates of 287 Mbit/s; `out_5=43e6` limits what n5 sends, `into_2=...` what n2 receives."""
    matrix = np.full((6, 6), 287e6)
    for key, rate_bps in slow.items():
        way, host = key.split("_")
        index = (int(host), slice(None)) if way == "out" else (slice(None), int(host))
        matrix[index] = np.minimum(matrix[index], rate_bps)
    return matrix


def grouped(*verdicts: LinkVerdict, up_bps: float | None = None, down_bps: float | None = None) -> Network:
    made = network(NAMES, 287e6)
    hosts = [host.model_copy(update={"egress_bps": 287e6, "ingress_bps": 287e6}) for host in made.hosts]
    group = Group(name="rack2", members=["n0", "n1", "n2"], up_bps=up_bps, down_bps=down_bps)
    return made.model_copy(update={"hosts": hosts, "groups": [group], "verdicts": list(verdicts), "sharing": "groups"})


def test_a_slow_sender_is_named_with_how_much_slower_it_is() -> None:
    assert host_sentences(NAMES, rates(out_5=43e6)) == [
        "n5 sends 6.7 times slower than the others: 43.0 Mbit/s instead of 287 Mbit/s"
    ]


def test_senders_and_receivers_are_told_apart() -> None:
    both = host_sentences(NAMES, rates(out_5=43e6, into_2=100e6))
    assert both == [
        "n5 sends 6.7 times slower than the others: 43.0 Mbit/s instead of 287 Mbit/s",
        "n2 receives 2.9 times slower than the others: 100 Mbit/s instead of 287 Mbit/s",
    ]
    (alike,) = host_sentences(NAMES, rates(out_5=43e6, into_5=43e6, out_4=48e6, into_4=48e6))
    assert alike.startswith("n4 and n5 send and receive 6.0 to 6.7 times slower than the others: ")


def test_nothing_is_invented() -> None:
    assert host_sentences(NAMES, rates()) == ["no host stands out: each sends at about 287 Mbit/s"]
    # Half of the hosts are no exception.
    half = host_sentences(NAMES, rates(out_0=40e6, out_1=40e6, out_2=40e6))
    assert half == ["no host stands out: they send at 40.0 Mbit/s to 287 Mbit/s"]
    assert host_sentences(NAMES[:2], rates()[:2, :2]) == []
    assert host_sentences(NAMES, np.full((6, 6), np.nan)) == []


def test_hosts_of_one_machine_do_not_hide_that_they_are_slow() -> None:
    matrix = rates(out_4=43e6, out_5=43e6)
    matrix[4, 5] = matrix[5, 4] = 20e9
    (sentence,) = host_sentences(NAMES, matrix, ["a", "b", "c", "d", "e", "e"])
    assert sentence.startswith("n4 and n5 send 6.7 times slower than the others")


def test_a_shared_link_does_not_make_its_hosts_slow() -> None:
    matrix = rates()
    matrix[:3, 3:] = 143e6 / 3
    assert host_sentences(NAMES, matrix) == ["no host stands out: each sends at about 287 Mbit/s"]


def test_hosts_behind_a_shared_link_are_named() -> None:
    out = LinkVerdict(link="out of rack2", verdict="tor", rate_bps=143e6)
    into = LinkVerdict(link="into rack2", verdict="tor", rate_bps=145e6)
    assert link_sentences(grouped(out, up_bps=143e6)) == ["n0, n1 and n2 share 143 Mbit/s out of rack2"]
    assert link_sentences(grouped(out, into, up_bps=143e6, down_bps=145e6)) == [
        "n0, n1 and n2 share 143 Mbit/s out of rack2 and 145 Mbit/s into it"
    ]
    assert standouts(grouped(out, up_bps=143e6))[-1] == "n0, n1 and n2 share 143 Mbit/s out of rack2"


@pytest.mark.parametrize(
    ("verdict", "up_bps"),
    [
        (LinkVerdict(link="out of rack2", verdict="unknown", at_least_bps=143e6), 143e6),  # it may carry more
        (LinkVerdict(link="out of rack2", verdict="tor", rate_bps=2e9), 2e9),  # more than its hosts can send
    ],
)
def test_links_that_do_not_limit_are_no_finding(verdict: LinkVerdict, up_bps: float) -> None:
    assert link_sentences(grouped(verdict, up_bps=up_bps)) == []


def test_a_link_with_two_names_is_named_once() -> None:
    verdict = LinkVerdict(link="out of rack2, into rack3", verdict="tor", rate_bps=143e6)
    made = grouped(verdict, up_bps=143e6)
    other = Group(name="rack3", members=["n3", "n4", "n5"], down_bps=143e6)
    made = made.model_copy(update={"groups": [*made.groups, other]})
    assert link_sentences(made) == ["n0, n1 and n2 share 143 Mbit/s out of rack2"]


def test_limits_are_at_least_what_was_seen_unless_an_experiment_found_them() -> None:
    hose = LinkVerdict(link="out of n0", verdict="hose", rate_bps=287e6)
    opened = LinkVerdict(link="into n0", verdict="open", at_least_bps=526e6, evidence="seen; twice")
    unknown = LinkVerdict(link="into n1", verdict="unknown", evidence="not tested")
    made = grouped(unknown, opened, hose)
    limits = limits_of(made)
    assert (limits["out of n0"].rate_bps, limits["out of n0"].certain) == (287e6, True)
    assert (limits["into n0"].rate_bps, limits["into n0"].certain) == (526e6, False)
    assert (limits["into n1"].rate_bps, limits["into n1"].certain) == (287e6, False)
    rows = link_rows(made)
    assert [row.verdict.link for row in rows] == ["out of n0", "into n0", "into n1"]
    assert [row.informative for row in rows] == [True, True, False]
    assert [row.least_bps for row in rows] == [None, 526e6, 287e6]
    assert [row.reason for row in rows] == ["", "seen", "not tested"]


def test_long_lists_are_shortened() -> None:
    assert [listed(NAMES[:k]) for k in (1, 2, 3, 4, 6)] == [
        "n0",
        "n0 and n1",
        "n0, n1 and n2",
        "n0, n1, n2 and n3",
        "n0, n1, n2 and 3 more",
    ]


def test_a_network_without_pairs_needs_no_matrix() -> None:
    size = 50_000
    hosts = [Host(name=f"n{i}", egress_bps=43e6 if i == 5 else 287e6, ingress_bps=287e6) for i in range(size)]
    sentences = standouts(Network(format="gavotte/network/1", hosts=hosts))
    assert sentences == ["n5 sends 6.7 times slower than the others: 43.0 Mbit/s instead of 287 Mbit/s"]
